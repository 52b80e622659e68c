package io.taskyard.worker.artifacts;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.DigestOutputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/**
 * Bytes on their way out, in a file of their own, so that they can be sent again.
 *
 * @param path the file
 * @param size how many bytes
 * @param sha256 their SHA-256
 */
record Scratch(Path path, long size, String sha256) implements AutoCloseable {

  static Scratch of(Path folder, InputStream content) throws IOException {
    Path path = Files.createTempFile(folder, "upload", "");
    try (OutputStream file = Files.newOutputStream(path)) {
      MessageDigest digest = newDigest();
      long size = content.transferTo(new DigestOutputStream(file, digest));
      return new Scratch(path, size, HexFormat.of().formatHex(digest.digest()));
    } catch (IOException | RuntimeException | Error error) {
      Files.deleteIfExists(path);
      throw error;
    }
  }

  static MessageDigest newDigest() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException("every Java has SHA-256", error);
    }
  }

  @Override
  public void close() throws IOException {
    Files.deleteIfExists(path);
  }
}
