package io.taskyard.worker.disk;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;

/** Keeps others on the host from reading what tasks returned. */
final class Private {
  private Private() {}

  /** Lets a directory be entered by its owner alone, where the file system knows owners. */
  static void restrict(Path directory) throws IOException {
    PosixFileAttributeView view =
        Files.getFileAttributeView(directory, PosixFileAttributeView.class);
    if (view != null) {
      view.setPermissions(PosixFilePermissions.fromString("rwx------"));
    }
  }
}
