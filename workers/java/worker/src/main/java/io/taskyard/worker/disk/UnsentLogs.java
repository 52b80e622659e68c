package io.taskyard.worker.disk;

import com.google.protobuf.InvalidProtocolBufferException;
import io.taskyard.v1.AppendLogsRequest;
import io.taskyard.v1.LogChunk;
import io.taskyard.worker.logs.WorkerLog;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;

/**
 * Log lines that a stopping worker could not send: one file, read at its next start, replaced as a
 * whole. The lines of a killed worker are lost.
 */
public final class UnsentLogs {
  private final Path file;
  private final WorkerLog log;

  public UnsentLogs(Path file, WorkerLog log) {
    this.file = file;
    this.log = log;
  }

  /** Keeps these lines in place of all that were kept. */
  public void keep(List<LogChunk> chunks) throws IOException {
    Path whole = file.resolveSibling(file.getFileName() + ".part");
    Files.write(whole, AppendLogsRequest.newBuilder().addAllChunks(chunks).build().toByteArray());
    Files.move(whole, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }

  /** What an earlier life left; it stays until `clear` or `keep`. */
  public List<LogChunk> replay() throws IOException {
    if (!Files.exists(file)) {
      return List.of();
    }
    try {
      return AppendLogsRequest.parseFrom(Files.readAllBytes(file)).getChunksList();
    } catch (InvalidProtocolBufferException error) {
      log.warning(
          "the log lines that an earlier life could not send are damaged and lost", "error", error);
      clear();
      return List.of();
    }
  }

  /** Lets go of every line. */
  public void clear() throws IOException {
    Files.deleteIfExists(file);
  }
}
