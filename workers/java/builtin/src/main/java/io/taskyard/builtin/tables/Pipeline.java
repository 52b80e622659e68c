package io.taskyard.builtin.tables;

import io.taskyard.builtin.input.Refusal;
import java.io.IOException;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;

/** The steps of one attempt, as views over files, of which only the last one is worked out. */
final class Pipeline {
  private static final String SOURCE = "source";

  /**
   * What came out.
   *
   * @param file the table
   * @param format how it is written
   * @param rows how many there are
   * @param columns their names
   */
  record Result(Path file, TableFormat format, long rows, List<String> columns) {}

  private final Database database;

  Pipeline(Database database) {
    this.database = database;
  }

  /**
   * Does it all.
   *
   * @param files the sources that were fetched
   * @param format of the result; null: that of the first source
   * @param target the file to write
   */
  Result run(
      Source source, List<Step> steps, Map<String, Path> files, TableFormat format, Path target)
      throws Refusal, SQLException, IOException {
    TableFormat own = read(SOURCE, "source", source, files);
    String last = SOURCE;
    for (int number = 0; number < steps.size(); number++) {
      last = step(number, steps.get(number), last, files);
    }
    TableFormat wanted = format == null ? own : format;
    return new Result(target, wanted, written(last, target, wanted), database.columns(last));
  }

  private TableFormat read(String view, String field, Source source, Map<String, Path> files)
      throws Refusal, IOException, SQLException {
    Path file = files.get(source.uri());
    TableFormat format = source.format() == null ? TableFormat.of(file) : source.format();
    try {
      database.view(view, "FROM " + format.reader(file));
    } catch (SQLException error) {
      throw refused(
          error,
          Refusal.nonRetryable(
              "'%s' cannot be read as %s, which 'source_format' may tell: %s",
              field, format.suffix(), database.told(error)));
    }
    return format;
  }

  private String step(int number, Step step, String from, Map<String, Path> files)
      throws Refusal, SQLException, IOException {
    String place = "steps[%d]".formatted(number);
    if (step instanceof Step.Join join) {
      read(place + ".source", place + ".join.source", join.source(), files);
    }
    try {
      database.view(place, step.query(Sql.name(from), Sql.name(place + ".source")));
    } catch (SQLException error) {
      throw refused(
          error,
          Refusal.invalid(
              "'%s' cannot be done: %s; the columns here are %s",
              place, database.told(error), String.join(", ", database.columns(from))));
    }
    return place;
  }

  private long written(String view, Path target, TableFormat format) throws Refusal, SQLException {
    try {
      return database.write(view, target, format);
    } catch (SQLException error) {
      throw refused(
          error, Refusal.nonRetryable("the table could not be made: %s", database.told(error)));
    }
  }

  /** What is thrown for an error: the refusal, unless another attempt may do better. */
  private static Refusal refused(SQLException error, Refusal refusal) throws SQLException {
    if (Database.mayPass(error)) {
      throw error;
    }
    return refusal;
  }
}
