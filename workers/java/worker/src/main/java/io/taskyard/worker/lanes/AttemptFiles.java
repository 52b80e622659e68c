package io.taskyard.worker.lanes;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.taskyard.worker.Artifacts;
import io.taskyard.worker.json.InvalidInputException;
import io.taskyard.worker.work.Attempt;
import io.taskyard.worker.work.Ending;
import java.io.IOException;

/** What is done with artifacts around a handler. On the attempt's thread; it may wait. */
public interface AttemptFiles {
  /** The store as the attempt's handler sees it. */
  Artifacts of(Attempt attempt);

  /** An input with each text that stands for a value in an artifact replaced by that. */
  ObjectNode resolved(Attempt attempt, ObjectNode input)
      throws InvalidInputException, IOException, InterruptedException;

  /** An ending whose output, if it is large, is an artifact by now. */
  Ending stored(Attempt attempt, Ending ending) throws InterruptedException;
}
