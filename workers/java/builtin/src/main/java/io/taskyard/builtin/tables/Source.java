package io.taskyard.builtin.tables;

import io.taskyard.builtin.input.Fields;
import io.taskyard.builtin.input.Refusal;

/**
 * A table that is read.
 *
 * @param uri the artifact that holds it
 * @param format how it is written; null: as its beginning looks
 */
record Source(String uri, TableFormat format) {
  static final String URI = "source";
  static final String FORMAT = "source_format";

  /** The source that `source` and `source_format` name. */
  static Source of(Fields fields) throws Refusal {
    return new Source(fields.artifact(URI), TableFormat.named(fields, FORMAT));
  }
}
