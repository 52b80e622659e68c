package io.taskyard.builtin.tables;

import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/**
 * A database in memory for one attempt. The SQL that a task brings reaches the files of one folder
 * and nothing else: no other file, no network, no extension.
 */
final class Database implements AutoCloseable {
  private static final List<String> BOUNDS =
      List.of(
          "SET threads = 1",
          "SET memory_limit = '256MB'",
          "SET max_temp_directory_size = '4GB'",
          "SET autoinstall_known_extensions = false",
          "SET autoload_known_extensions = false",
          "SET enable_external_access = false",
          "SET lock_configuration = true");

  private final Connection connection;
  private final String folder;
  private volatile Statement running;
  private volatile boolean stopped;

  /**
   * Opens one.
   *
   * @param folder all that it may read and write; what does not fit in memory goes there, too
   */
  Database(Path folder) throws SQLException {
    this.folder = folder + "/";
    connection = DriverManager.getConnection("jdbc:duckdb:");
    execute("SET temp_directory = " + Sql.text(this.folder + "spilled"));
    execute("SET allowed_directories = [%s]".formatted(Sql.text(this.folder)));
    for (String each : BOUNDS) {
      execute(each);
    }
  }

  /** Runs a statement. */
  void execute(String sql) throws SQLException {
    try (Statement statement = begun()) {
      statement.execute(sql);
    }
  }

  /** Names a query. */
  void view(String name, String query) throws SQLException {
    execute("CREATE VIEW %s AS %s".formatted(Sql.name(name), query));
  }

  /** The columns of a table or view. */
  List<String> columns(String name) throws SQLException {
    List<String> columns = new ArrayList<>();
    try (Statement statement = begun();
        ResultSet rows = statement.executeQuery("DESCRIBE " + Sql.name(name))) {
      while (rows.next()) {
        columns.add(rows.getString(1));
      }
    }
    return columns;
  }

  /** Writes a table or view into a file; returns how many rows it has. */
  long write(String name, Path file, TableFormat format) throws SQLException {
    String target = Sql.text(file.toString());
    String copy = "COPY (FROM %s) TO %s (%s)".formatted(Sql.name(name), target, format.writer());
    try (Statement statement = begun()) {
      return statement.executeLargeUpdate(copy);
    }
  }

  /** Ends the statement that runs, and lets no other begin. May be called from any thread. */
  void stop() {
    stopped = true;
    try {
      Statement last = running;
      if (last != null) {
        last.cancel();
      }
    } catch (SQLException error) {
      // It is closed: nothing runs, and nothing will.
    }
  }

  /** A new statement, which an error closes. */
  private Statement begun() throws SQLException {
    running = connection.createStatement();
    if (stopped) {
      throw new SQLException("stopped");
    }
    return running;
  }

  /** What an error says to people: its first line, without paths of this machine. */
  String told(SQLException error) {
    String first = String.valueOf(error.getMessage()).strip().lines().findFirst().orElse("");
    return first.replace(folder, "");
  }

  /** Whether an error may not come again: it speaks of this worker's memory or disk. */
  static boolean mayPass(SQLException error) {
    String message = String.valueOf(error.getMessage());
    return message.contains("Out of Memory Error") || message.contains("No space left");
  }

  @Override
  public void close() throws SQLException {
    connection.close();
  }
}
