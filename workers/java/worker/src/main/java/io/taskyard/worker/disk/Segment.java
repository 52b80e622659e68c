package io.taskyard.worker.disk;

import com.google.protobuf.InvalidProtocolBufferException;
import io.taskyard.v1.AssignTaskRequest;
import io.taskyard.v1.TaskResult;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;

/**
 * One file of the spool: records, each its length, its CRC-32 and the bytes of a frame. A torn
 * tail, as a kill or a full disk leaves it, is ignored.
 */
final class Segment {
  private static final int HEAD = 8;

  private final Path path;
  private long size;
  long last; // sequence number of its last result

  Segment(Path path) {
    this.path = path;
  }

  long size() {
    return size;
  }

  /** Writes a record, all of it or nothing. */
  void append(byte[] frame) throws IOException {
    CRC32 checksum = new CRC32();
    checksum.update(frame);
    ByteBuffer record = ByteBuffer.allocate(HEAD + frame.length).order(ByteOrder.LITTLE_ENDIAN);
    record.putInt(frame.length).putInt((int) checksum.getValue()).put(frame);
    try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
      try {
        file.seek(size);
        file.write(record.array());
      } catch (IOException error) {
        file.setLength(size);
        throw error;
      }
    }
    size += record.capacity();
  }

  void empty() throws IOException {
    if (size > 0) {
      try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
        file.setLength(0);
      }
      size = 0;
    }
  }

  void delete() throws IOException {
    Files.deleteIfExists(path);
  }

  /** The results in it, up to the first record that is torn or damaged. */
  List<TaskResult> read() throws IOException {
    ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(path)).order(ByteOrder.LITTLE_ENDIAN);
    List<TaskResult> results = new ArrayList<>();
    while (data.remaining() >= HEAD) {
      int length = data.getInt();
      int expected = data.getInt();
      if (length < 0 || length > data.remaining()) {
        break;
      }
      byte[] frame = new byte[length];
      data.get(frame);
      CRC32 checksum = new CRC32();
      checksum.update(frame);
      if ((int) checksum.getValue() != expected || !parse(frame, results)) {
        break;
      }
    }
    return results;
  }

  private static boolean parse(byte[] frame, List<TaskResult> to) {
    try {
      to.addAll(AssignTaskRequest.parseFrom(frame).getResultsList());
      return true;
    } catch (InvalidProtocolBufferException damaged) {
      return false;
    }
  }
}
