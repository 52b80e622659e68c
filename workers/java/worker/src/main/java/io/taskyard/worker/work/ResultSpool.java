package io.taskyard.worker.work;

import io.taskyard.v1.TaskResult;
import java.util.List;

/** Where results survive a kill of the worker, in order. Used on the loop. */
public interface ResultSpool {
  /** The results of an earlier life. Called once, before the first append. */
  List<TaskResult> replay();

  /** Keeps results, of which the last has this sequence number. */
  void append(List<TaskResult> results, long last);

  /** Lets go of every result before this sequence number. */
  void trim(long oldest);

  /** Lets go of all; unless `now` it may be put off, since a result too many does no harm. */
  void clear(boolean now);

  /** Closes the files. */
  void close();
}
