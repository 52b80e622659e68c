package io.taskyard.worker.lanes;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.taskyard.v1.TaskAssignment;
import io.taskyard.worker.ArtifactException;
import io.taskyard.worker.TaskHandler;
import io.taskyard.worker.TaskInput;
import io.taskyard.worker.TaskOutcome;
import io.taskyard.worker.json.InvalidInputException;
import io.taskyard.worker.json.TaskJson;
import io.taskyard.worker.work.Attempt;
import io.taskyard.worker.work.AttemptHost;
import io.taskyard.worker.work.Ending;
import io.taskyard.worker.work.Lane;
import io.taskyard.worker.work.Stop;
import java.io.IOException;
import java.time.Duration;

/** A virtual thread of its own, which an order to stop interrupts. */
public final class ThreadLane implements Lane {
  private final Attempt attempt;
  private final TaskHandler handler;
  private final AttemptHost host;
  private final AttemptFiles files;
  private final AttemptContext context;
  private final Thread thread;

  public ThreadLane(Attempt attempt, TaskHandler handler, AttemptHost host, AttemptFiles files) {
    this.attempt = attempt;
    this.handler = handler;
    this.host = host;
    this.files = files;
    this.context = new AttemptContext(attempt, host, files.of(attempt));
    this.thread = Thread.ofVirtual().name("task " + attempt.taskId()).unstarted(this::run);
  }

  @Override
  public void start() {
    thread.start();
  }

  @Override
  public void stop(Stop order) {
    thread.interrupt();
  }

  @Override
  public void renew(Duration lease) {
    throw new IllegalStateException("an exclusive attempt never runs on a thread");
  }

  @Override
  public boolean killable() {
    return false;
  }

  private void run() {
    long since = System.nanoTime();
    Ending ending = stopped() ? Ending.STOPPED : entered();
    context.close();
    host.ended(attempt, ending, Duration.ofNanos(System.nanoTime() - since));
  }

  private boolean stopped() {
    return attempt.stop().isPresent();
  }

  private Ending entered() {
    host.entered(attempt);
    try {
      TaskOutcome outcome = handler.handle(new TaskInput(input()), context);
      clearInterrupt();
      return files.stored(attempt, Endings.of(outcome, stopped()));
    } catch (InvalidInputException error) {
      return Ending.failure(TaskOutcome.INVALID_INPUT, error.getMessage());
    } catch (ArtifactException error) {
      return stopped() && Failures.tellsStop(error)
          ? Ending.STOPPED
          : Ending.failure(error.kind(), error.getMessage());
    } catch (InterruptedException error) { // the thread ends here, and with it the interrupt
      return stopped() ? Ending.STOPPED : Ending.failure(Failures.notTold("was interrupted"));
    } catch (Throwable error) { // whatever it is, it is the handler's, and must be reported
      return thrown(error);
    }
  }

  /** An order that came when the handler had ended must not break off what is left to do. */
  private void clearInterrupt() {
    if (!stopped()) {
      Thread.interrupted();
    }
  }

  private Ending thrown(Throwable error) {
    if (stopped() && Failures.tellsStop(error)) {
      return Ending.STOPPED;
    }
    context.failed(error);
    return Ending.failure(TaskOutcome.HANDLER_ERROR, Failures.describe(error));
  }

  private ObjectNode input() throws InvalidInputException, IOException, InterruptedException {
    TaskAssignment assignment = attempt.assignment();
    ObjectNode values = TaskJson.input(assignment.getInputJson(), assignment.getParamsMap());
    return files.resolved(attempt, values);
  }
}
