package io.taskyard.worker;

import io.taskyard.worker.artifacts.ArtifactFiles;
import io.taskyard.worker.artifacts.ArtifactLink;
import io.taskyard.worker.disk.DataDirectoryException;
import io.taskyard.worker.disk.Home;
import io.taskyard.worker.http.Endpoints;
import io.taskyard.worker.http.WorkerMetrics;
import io.taskyard.worker.lanes.ThreadLane;
import io.taskyard.worker.link.Channels;
import io.taskyard.worker.link.SchedulerLink;
import io.taskyard.worker.logs.WorkerLog;
import io.taskyard.worker.session.ExitCode;
import io.taskyard.worker.session.Identity;
import io.taskyard.worker.session.WorkerRuntime;
import io.taskyard.worker.session.WorkerStopped;
import io.taskyard.worker.settings.SettingsException;
import io.taskyard.worker.settings.WorkerSettings;
import io.taskyard.worker.work.Observer;
import java.io.IOException;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.random.RandomGenerator;
import sun.misc.Signal;

/** The worker's command: settings from the environment, handlers from the class path. */
public final class Main {
  private Main() {}

  /** Runs a worker until it is drained; the process ends with one of {@link ExitCode}. */
  public static void main(String[] arguments) {
    Logger.getLogger("io.grpc").setLevel(Level.SEVERE); // what fails is told by the worker's log
    ExitCode code;
    try {
      code = run(System.getenv());
    } catch (SettingsException error) {
      code = refused(ExitCode.USAGE, error);
    } catch (DataDirectoryException error) {
      code = refused(ExitCode.DATA, error);
    } catch (WorkerStopped error) {
      code = refused(error.code(), error);
    } catch (InterruptedException | RuntimeException | Error error) {
      error.printStackTrace();
      code = ExitCode.FAULT;
    }
    Runtime.getRuntime().halt(code.number()); // whatever threads handlers have left behind
  }

  private static ExitCode refused(ExitCode code, Exception error) {
    System.err.println("taskyard worker: " + error.getMessage());
    return code;
  }

  @SuppressWarnings("try") // an interrupt ends the process
  private static ExitCode run(Map<String, String> environment)
      throws DataDirectoryException, WorkerStopped, InterruptedException {
    WorkerSettings settings = WorkerSettings.load(environment);
    WorkerLog log = new WorkerLog(System.err, settings.logLevel());
    TaskRegistry registry = registry();
    WorkerMetrics metrics = new WorkerMetrics();
    try (Home home = Home.take(settings.data(), settings.workerId());
        Endpoints endpoints = Endpoints.take(settings);
        WorkerRuntime worker = worker(settings, registry, home, endpoints.port(), metrics, log)) {
      onSignal(worker::drain);
      metrics.show(worker);
      endpoints.start(metrics, worker);
      log.info(
          "serving /healthz, /readyz, /metrics", "bind", settings.bind(), "port", endpoints.port());
      return worker.run();
    } catch (IOException error) {
      throw new DataDirectoryException(
          "the worker's data directory %s cannot be used: %s; name another in TASKYARD_DATA"
              .formatted(settings.data(), error));
    }
  }

  private static TaskRegistry registry() {
    TaskRegistry registry = new TaskRegistry();
    ServiceLoader.load(TaskModule.class).forEach(module -> module.addTo(registry));
    if (registry.entries().isEmpty()) {
      throw new SettingsException(
          "no jar on the class path offers a task type: name a TaskModule in META-INF/services/"
              + TaskModule.class.getName());
    }
    return registry;
  }

  private static WorkerRuntime worker(
      WorkerSettings settings,
      TaskRegistry registry,
      Home home,
      int port,
      Observer observer,
      WorkerLog log)
      throws IOException {
    Channels channels = new Channels(settings.address(), settings.token(), settings.ca());
    ArtifactFiles files =
        new ArtifactFiles(
            new ArtifactLink(channels), home.workerId(), home.path().resolve("scratch"));
    return new WorkerRuntime(
        new WorkerRuntime.Parts(
            settings,
            Identity.of(settings, home.workerId(), port, registry),
            registry,
            new SchedulerLink(channels, RandomGenerator.getDefault()),
            home.path(),
            (attempt, entry, host) -> new ThreadLane(attempt, entry.handler(), host, files),
            observer,
            log));
  }

  /** The first signal drains; the second ends the process at once. */
  private static void onSignal(Runnable drain) {
    AtomicBoolean told = new AtomicBoolean();
    for (String name : new String[] {"TERM", "INT"}) {
      Signal.handle(
          new Signal(name),
          signal -> {
            if (told.getAndSet(true)) {
              Runtime.getRuntime().halt(ExitCode.STOPPED_AT_ONCE.number());
            }
            drain.run();
          });
    }
  }
}
