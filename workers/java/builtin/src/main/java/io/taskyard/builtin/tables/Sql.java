package io.taskyard.builtin.tables;

import java.util.Collection;
import java.util.stream.Collectors;

/** How names and texts are written in SQL. */
final class Sql {
  private Sql() {}

  /** A name of a column, a table or a view. */
  static String name(String name) {
    return '"' + name.replace("\"", "\"\"") + '"';
  }

  /** Names, with commas between them. */
  static String names(Collection<String> names) {
    return names.stream().map(Sql::name).collect(Collectors.joining(", "));
  }

  /** A text. */
  static String text(String text) {
    return "'" + text.replace("'", "''") + "'";
  }
}
