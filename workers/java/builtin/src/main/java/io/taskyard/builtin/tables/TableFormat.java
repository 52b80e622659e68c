package io.taskyard.builtin.tables;

import com.fasterxml.jackson.databind.JsonNode;
import io.taskyard.builtin.input.Fields;
import io.taskyard.builtin.input.Refusal;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/** How a table is written in a file. */
enum TableFormat {
  CSV("text/csv", "read_csv(%s, header = true)", "FORMAT csv, HEADER"),
  JSONL("application/x-ndjson", "read_json(%s, format = 'newline_delimited')", "FORMAT json"),
  PARQUET("application/vnd.apache.parquet", "read_parquet(%s)", "FORMAT parquet");

  private static final int LOOKED_AT = 64;

  private final String mediaType;
  private final String reading;
  private final String writing;

  TableFormat(String mediaType, String reading, String writing) {
    this.mediaType = mediaType;
    this.reading = reading;
    this.writing = writing;
  }

  String mediaType() {
    return mediaType;
  }

  /** The end of a file's name. */
  String suffix() {
    return name().toLowerCase(Locale.ROOT);
  }

  /** What stands after FROM to read a file. */
  String reader(Path file) {
    return reading.formatted(Sql.text(file.toString()));
  }

  /** The options of COPY that write a file. */
  String writer() {
    return writing;
  }

  /**
   * The format that a field names; null when it was left out.
   *
   * @throws Refusal it names none
   */
  static TableFormat named(Fields fields, String field) throws Refusal {
    JsonNode value = fields.get(field);
    if (value == null) {
      return null;
    }
    for (TableFormat each : values()) {
      if (each.suffix().equals(value.textValue())) {
        return each;
      }
    }
    throw Refusal.invalid(
        "'%s' is %s; it must be csv, jsonl or parquet, or left out", field, Fields.shown(value));
  }

  /** The format of a file, by its beginning. */
  static TableFormat of(Path file) throws IOException {
    try (InputStream in = Files.newInputStream(file)) {
      String head = new String(in.readNBytes(LOOKED_AT), StandardCharsets.ISO_8859_1);
      if (head.startsWith("PAR1")) {
        return PARQUET;
      }
      return head.strip().startsWith("{") ? JSONL : CSV;
    }
  }
}
