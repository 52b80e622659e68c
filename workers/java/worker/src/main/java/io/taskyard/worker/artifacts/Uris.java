package io.taskyard.worker.artifacts;

import io.taskyard.worker.ArtifactException;
import io.taskyard.worker.TaskOutcome;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The URIs of artifacts: of their bytes, and of values in them. */
final class Uris {
  private static final String SCHEME = "artifact://";
  private static final int SHOWN = 80;
  private static final Pattern URI =
      Pattern.compile(
          SCHEME + "([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})(#.*)?",
          Pattern.DOTALL);

  private Uris() {}

  static String of(String id) {
    return SCHEME + id;
  }

  /** The id of the artifact whose bytes a URI means. */
  static String id(String uri) throws ArtifactException {
    Matcher found = URI.matcher(uri);
    if (!found.matches()) {
      throw invalid(
          "'%s' is no artifact's URI, which looks like artifact://018f3b5e-7c1a-7abc-…", uri);
    }
    if (found.group(2) != null) {
      throw invalid(
          "'%s' stands for a value in an artifact; leave out # and the rest for its bytes", uri);
    }
    return found.group(1);
  }

  private static ArtifactException invalid(String format, String uri) {
    return new ArtifactException(TaskOutcome.INVALID_INPUT, format.formatted(shown(uri)));
  }

  /** What a whole text stands for; empty when it is any other, a reference to bytes included. */
  static Optional<ValueReference> value(String text) {
    if (!text.startsWith(SCHEME)) {
      return Optional.empty();
    }
    Matcher found = URI.matcher(text);
    return found.matches() && found.group(2) != null
        ? Optional.of(new ValueReference(text, found.group(1), found.group(2).substring(1)))
        : Optional.empty();
  }

  /** A text as it is shown in a sentence. */
  static String shown(String text) {
    return text.length() <= SHOWN ? text : text.substring(0, SHOWN) + "…";
  }
}
