package io.taskyard.worker.settings;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * What can be set: the variables of docs/configuration.md that concern every worker.
 *
 * @param address `host:port` of a scheduler's gRPC
 * @param token bearer token; empty: none is sent
 * @param ca certificates (PEM) that sign the scheduler's; empty: no TLS
 * @param workerId the worker's id; empty: one is made and kept in the data directory
 * @param data directory for what outlives the process
 * @param concurrency how many tasks run at once
 * @param offer what tasks that ask for resources may have
 * @param labels labels that selectors match
 * @param host name of this host for people
 * @param bind address of the HTTP endpoints
 * @param httpPort their port; empty: 8080, or a free one when that is taken
 * @param drainGrace how long running tasks may go on after SIGTERM
 * @param reachGrace how long a worker that stops waits for a scheduler out of reach
 * @param logLevel the least severe level of the worker's own log
 */
public record WorkerSettings(
    String address,
    String token,
    Optional<Path> ca,
    String workerId,
    Path data,
    int concurrency,
    Offer offer,
    Map<String, String> labels,
    String host,
    String bind,
    Optional<Integer> httpPort,
    Duration drainGrace,
    Duration reachGrace,
    Level logLevel) {

  /**
   * Resources that the worker offers.
   *
   * @param cpuMillis thousandths of a processor core
   * @param memoryMb MiB of memory
   * @param gpus whole GPUs
   */
  public record Offer(int cpuMillis, int memoryMb, int gpus) {}

  /** How severe a line of the worker's own log is. */
  public enum Level {
    DEBUG,
    INFO,
    WARNING,
    ERROR
  }

  /**
   * Reads the settings.
   *
   * @param environment variables by name
   * @throws SettingsException values break their rules
   */
  public static WorkerSettings load(Map<String, String> environment) {
    return new SettingsReader(environment).read();
  }

  /** Without the token, which must not stand in any log. */
  @Override
  public String toString() {
    return "WorkerSettings[address=%s, workerId=%s, data=%s]".formatted(address, workerId, data);
  }
}
