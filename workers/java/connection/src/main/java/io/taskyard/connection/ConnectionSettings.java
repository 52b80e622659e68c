package io.taskyard.connection;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * Where the scheduler is, and how to speak to it.
 *
 * @param address {@code host:port} of the scheduler, or of the load balancer in front of it
 * @param token says who calls; empty where none is needed
 * @param ca certificates (PEM) that sign the scheduler's; empty: plain text
 * @param timeout that a call may take, all its attempts together, unless the call has a deadline
 */
public record ConnectionSettings(
    String address, Optional<String> token, Optional<Path> ca, Duration timeout) {
  /** What a call may take unless something else is said. */
  public static final Duration DEFAULT_TIMEOUT = Duration.ofSeconds(30);

  public ConnectionSettings {
    if (!address.matches("(\\[[^\\]\\s]+\\]|[^:\\s/]+):\\d{1,5}")) {
      throw new IllegalArgumentException(
          "address must be host:port, with IPv6 as [::1]:9090; it is '" + address + "'");
    }
    if (!timeout.isPositive()) {
      throw new IllegalArgumentException("timeout must be more than 0; it is " + timeout);
    }
  }

  /** Returns settings for an address in plain text, without a token. */
  public static ConnectionSettings of(String address) {
    return new ConnectionSettings(address, Optional.empty(), Optional.empty(), DEFAULT_TIMEOUT);
  }

  /** Returns these settings with a token. */
  public ConnectionSettings withToken(String given) {
    return new ConnectionSettings(address, Optional.of(given), ca, timeout);
  }

  /** Returns these settings with certificates to trust, which makes the connection encrypted. */
  public ConnectionSettings withCa(Path given) {
    return new ConnectionSettings(address, token, Optional.of(given), timeout);
  }

  /** Returns these settings with another timeout. */
  public ConnectionSettings withTimeout(Duration given) {
    return new ConnectionSettings(address, token, ca, given);
  }

  /**
   * Returns what TASKYARD_ADDRESS, TASKYARD_TOKEN and TASKYARD_CA say; an empty one counts as
   * absent.
   *
   * @param environment usually {@code System.getenv()}
   */
  public static ConnectionSettings fromEnvironment(Map<String, String> environment) {
    String address =
        value(environment, "TASKYARD_ADDRESS")
            .orElseThrow(() ->
                new IllegalArgumentException(
                    "TASKYARD_ADDRESS is not set; it is the scheduler's host:port"));
    return new ConnectionSettings(
        address,
        value(environment, "TASKYARD_TOKEN"),
        value(environment, "TASKYARD_CA").map(Path::of),
        DEFAULT_TIMEOUT);
  }

  /** Tells the settings without the token, which does not belong into a log. */
  @Override
  public String toString() {
    return "ConnectionSettings[address=" + address + ", ca=" + ca + ", timeout=" + timeout + "]";
  }

  private static Optional<String> value(Map<String, String> environment, String name) {
    return Optional.ofNullable(environment.get(name)).map(String::strip).filter(s -> !s.isEmpty());
  }
}
