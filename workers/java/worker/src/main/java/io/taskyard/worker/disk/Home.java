package io.taskyard.worker.disk;

import java.io.IOException;
import java.net.URLEncoder;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * The worker's own directory on this host, held by a lock, and the id that is kept in it. A restart
 * is the same worker; a second worker on the host takes the next numbered directory.
 *
 * @param path the directory
 * @param workerId the worker's id
 * @param lock held until it is closed, or the process ends in whatever way
 */
public record Home(Path path, String workerId, FileChannel lock) implements AutoCloseable {
  private static final String PREFIX = "java-worker-";
  private static final Pattern KEPT = Pattern.compile(PREFIX + "[!-~]{1,188}");
  private static final int MAX_DIRECTORIES = 10_000;

  /**
   * Takes a directory below `data`, which workers in other languages may share.
   *
   * @param workerId a chosen id, which has a directory of its own; empty: the id that is kept in
   *     the first directory that no other worker holds
   * @throws DataDirectoryException it cannot be used, or a worker of the chosen id runs already
   */
  public static Home take(Path data, String workerId) throws DataDirectoryException {
    try {
      return workerId.isEmpty() ? next(data) : chosen(data, workerId);
    } catch (IOException error) {
      throw new DataDirectoryException(
          "the worker's data directory below %s cannot be used: %s; name another in TASKYARD_DATA"
              .formatted(data, error));
    }
  }

  private static Home chosen(Path data, String workerId)
      throws IOException, DataDirectoryException {
    String name = "java-id-" + URLEncoder.encode(workerId, StandardCharsets.UTF_8);
    Path path = data.resolve("workers").resolve(name);
    FileChannel lock =
        lock(path)
            .orElseThrow(() ->
                new DataDirectoryException(
                    "a worker with the id '%s' runs on this host already; stop it or choose another id"
                        .formatted(workerId)));
    return new Home(path, workerId, lock);
  }

  private static Home next(Path data) throws IOException, DataDirectoryException {
    for (int number = 1; number <= MAX_DIRECTORIES; number++) {
      Path path = data.resolve("workers").resolve("java-" + number);
      Optional<FileChannel> lock = lock(path);
      if (lock.isPresent()) {
        return new Home(path, keptId(path.resolve("worker-id")), lock.get());
      }
    }
    throw new DataDirectoryException(
        "all %d worker directories below %s are in use".formatted(MAX_DIRECTORIES, data));
  }

  private static Optional<FileChannel> lock(Path path) throws IOException {
    Files.createDirectories(path);
    Private.restrict(path);
    FileChannel file =
        FileChannel.open(path.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
    FileLock lock = null;
    try {
      lock = file.tryLock();
    } catch (OverlappingFileLockException heldHere) { // another worker in this process
      lock = null;
    } finally {
      if (lock == null) {
        file.close();
      }
    }
    return lock == null ? Optional.empty() : Optional.of(file);
  }

  /** The id that the file keeps; a missing or damaged one gets a new id. */
  private static String keptId(Path file) throws IOException {
    if (Files.exists(file)) {
      String kept = new String(Files.readAllBytes(file), StandardCharsets.UTF_8).strip();
      if (KEPT.matcher(kept).matches()) {
        return kept;
      }
    }
    byte[] random = new byte[4];
    new SecureRandom().nextBytes(random);
    String id = PREFIX + HexFormat.of().formatHex(random);
    Path fresh = file.resolveSibling("worker-id.new");
    Files.writeString(fresh, id + "\n");
    Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
    return id;
  }

  @Override
  public void close() throws IOException {
    lock.close();
  }
}
