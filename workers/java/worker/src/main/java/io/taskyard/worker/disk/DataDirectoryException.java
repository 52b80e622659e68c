package io.taskyard.worker.disk;

/** The worker's data directory cannot be used; the message names it and says why. */
public final class DataDirectoryException extends Exception {
  public DataDirectoryException(String message) {
    super(message);
  }
}
