package io.taskyard.worker.settings;

import io.taskyard.worker.settings.WorkerSettings.Level;
import io.taskyard.worker.settings.WorkerSettings.Offer;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Reads settings, and gathers what is wrong with them, so that all of it is told at once. */
final class SettingsReader {
  private static final int SHOWN = 200;
  private static final Pattern ADDRESS =
      Pattern.compile("(?:[^\\s:/\\[\\]]+|\\[[0-9A-Fa-f:.%]+\\]):([0-9]{1,5})");
  private static final Pattern UNFIT = Pattern.compile("[^\\x21-\\x7e]");

  private final Map<String, String> environment;
  private final List<String> wrong = new ArrayList<>();

  SettingsReader(Map<String, String> environment) {
    this.environment = environment;
  }

  WorkerSettings read() {
    WorkerSettings settings =
        new WorkerSettings(
            address(),
            token(),
            given("CA").map(SettingsReader::path),
            workerId(),
            path(text("DATA", "~/.local/share/taskyard")),
            whole("CONCURRENCY", 10, 1, 100_000),
            offer(),
            labels(),
            host(),
            text("BIND", "0.0.0.0"),
            given("HTTP_PORT").map(ignored -> whole("HTTP_PORT", 8080, 0, 65_535)),
            seconds("DRAIN_GRACE_S"),
            seconds("REACH_GRACE_S"),
            level());
    if (!wrong.isEmpty()) {
      throw new SettingsException(String.join("\n", wrong));
    }
    return settings;
  }

  private Optional<String> given(String name) {
    return Optional.ofNullable(environment.get("TASKYARD_" + name)).filter(text -> !text.isEmpty());
  }

  private String text(String name, String otherwise) {
    return given(name).orElse(otherwise);
  }

  private void refuse(String name, String shown, String rule) {
    wrong.add("TASKYARD_%s is %s: %s.".formatted(name, shown, rule));
  }

  private static String quoted(String text) {
    return "'" + text.substring(0, Math.min(SHOWN, text.length())) + "'";
  }

  private String address() {
    String address = text("ADDRESS", "127.0.0.1:9090").strip();
    Matcher found = ADDRESS.matcher(address);
    if (!found.matches() || !isPort(found.group(1))) {
      refuse("ADDRESS", quoted(address), "not host:port; write for example 127.0.0.1:9090");
    }
    return address;
  }

  private static boolean isPort(String digits) {
    int port = Integer.parseInt(digits);
    return port > 0 && port < 65_536;
  }

  private String token() {
    String token = text("TOKEN", "").strip();
    Matcher unfit = UNFIT.matcher(token);
    if (unfit.find()) {
      refuse(
          "TOKEN",
          "a secret",
          ("character %d of %d is U+%04X, and a token has only letters, digits and signs of ASCII,"
                  + " without spaces; copy it anew (`taskyard token` makes one)")
              .formatted(unfit.start() + 1, token.length(), token.codePointAt(unfit.start())));
    }
    return token;
  }

  private String workerId() {
    String id = text("WORKER_ID", "");
    if (id.codePointCount(0, id.length()) > 200) {
      refuse("WORKER_ID", quoted(id), "at most 200 characters");
    }
    return id;
  }

  private static Path path(String text) {
    boolean home = text.equals("~") || text.startsWith("~/");
    return Path.of(home ? System.getProperty("user.home") + text.substring(1) : text);
  }

  private int whole(String name, int otherwise, int least, int most) {
    String text = text(name, String.valueOf(otherwise)).strip();
    try {
      int value = Integer.parseInt(text);
      if (value >= least && value <= most) {
        return value;
      }
    } catch (NumberFormatException error) { // told below, as what is out of range
    }
    refuse(name, quoted(text), "write a whole number from %d to %d".formatted(least, most));
    return otherwise;
  }

  private double number(String name, double otherwise, double most) {
    String text = text(name, String.valueOf(otherwise)).strip();
    try {
      double value = Double.parseDouble(text);
      if (value >= 0 && value <= most) {
        return value;
      }
    } catch (NumberFormatException error) { // told below, as what is out of range
    }
    refuse(name, quoted(text), "write a number from 0 to %.0f".formatted(most));
    return otherwise;
  }

  private Duration seconds(String name) {
    return Duration.ofNanos(Math.round(number(name, 10, 86_400) * 1e9));
  }

  private Offer offer() {
    double millis = number("CPUS", 0, 1_000) * 1_000;
    if (Math.abs(millis - Math.rint(millis)) > 1e-6) {
      refuse("CPUS", quoted(text("CPUS", "")), "cores are counted to a thousandth");
    }
    int memoryMb = whole("MEMORY_MB", 0, 0, 100_000_000);
    return new Offer((int) Math.rint(millis), memoryMb, whole("GPUS", 0, 0, 1_000));
  }

  private Map<String, String> labels() {
    Map<String, String> labels = new LinkedHashMap<>();
    for (String item : text("LABELS", "").split(",")) {
      if (!item.isBlank()) {
        addLabel(labels, item.strip());
      }
    }
    labels.putIfAbsent("lang", "java");
    if (labels.size() > 64) {
      refuse("LABELS", labels.size() + " labels", "a worker has at most 64");
    }
    return labels;
  }

  private void addLabel(Map<String, String> labels, String item) {
    int equals = item.indexOf('=');
    String name = equals < 0 ? "" : item.substring(0, equals).strip();
    if (name.isEmpty()) {
      refuse("LABELS", quoted(item), "not name=value");
    } else if (labels.putIfAbsent(name, item.substring(equals + 1).strip()) != null) {
      refuse("LABELS", quoted(item), "the label is given twice; keep one of them");
    }
  }

  private String host() {
    String host = text("HOST", "");
    if (host.length() > 255) {
      refuse("HOST", quoted(host), "at most 255 characters");
    }
    return host.isEmpty() ? ownHost() : host;
  }

  private static String ownHost() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException error) { // a host without a name is no reason not to work
      return "";
    }
  }

  private Level level() {
    String text = text("LOG_LEVEL", "info");
    try {
      return Level.valueOf(text.toUpperCase(Locale.ROOT));
    } catch (IllegalArgumentException error) {
      refuse("LOG_LEVEL", quoted(text), "one of: debug, info, warning, error");
      return Level.INFO;
    }
  }
}
