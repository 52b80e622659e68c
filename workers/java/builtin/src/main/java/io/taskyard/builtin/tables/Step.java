package io.taskyard.builtin.tables;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What is done to a table. */
sealed interface Step {

  /**
   * The query that does it.
   *
   * @param from the table's name, quoted
   * @param other that of the other table, where there is one
   */
  String query(String from, String other);

  /**
   * Keeps the rows for which a condition holds.
   *
   * @param condition an SQL expression
   */
  record Filter(String condition) implements Step {
    @Override
    public String query(String from, String other) {
      return "SELECT * FROM %s WHERE (%s\n)".formatted(from, condition);
    }
  }

  /**
   * Gives the columns that are wanted.
   *
   * @param columns SQL expressions by the names of their columns
   */
  record Project(Map<String, String> columns) implements Step {
    @Override
    public String query(String from, String other) {
      return "SELECT %s FROM %s".formatted(String.join(", ", named(columns)), from);
    }
  }

  /**
   * Makes one row of each group. The rows are in the order of what they were grouped by, so that a
   * result is the same each time.
   *
   * @param by columns; none: all rows are one group
   * @param values SQL expressions by the names of their columns
   */
  record Aggregate(List<String> by, Map<String, String> values) implements Step {
    @Override
    public String query(String from, String other) {
      List<String> columns = new ArrayList<>(by.stream().map(Sql::name).toList());
      columns.addAll(named(values));
      String query = "SELECT %s FROM %s".formatted(String.join(", ", columns), from);
      String groups = Sql.names(by);
      return by.isEmpty() ? query : query + " GROUP BY %s ORDER BY %s".formatted(groups, groups);
    }
  }

  /**
   * Puts the columns of another table beside those of this one, where both have equal values.
   *
   * @param source the other table
   * @param on columns that both have
   * @param left whether a row without a partner stays
   */
  record Join(Source source, List<String> on, boolean left) implements Step {
    @Override
    public String query(String from, String other) {
      return "SELECT * FROM %s %s JOIN %s USING (%s)"
          .formatted(from, left ? "LEFT" : "INNER", other, Sql.names(on));
    }
  }

  private static List<String> named(Map<String, String> expressions) {
    return expressions.entrySet().stream()
        .map(each -> "(%s\n) AS %s".formatted(each.getValue(), Sql.name(each.getKey())))
        .toList();
  }
}
