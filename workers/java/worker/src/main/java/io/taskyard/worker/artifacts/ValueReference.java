package io.taskyard.worker.artifacts;

import com.fasterxml.jackson.databind.JsonNode;
import io.taskyard.worker.json.InvalidInputException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.regex.Pattern;

/**
 * A text that stands for a value in an artifact.
 *
 * @param text the text
 * @param artifactId the artifact whose bytes are JSON
 * @param pointer where in it: a JSON pointer (RFC 6901) as a URI's fragment
 */
record ValueReference(String text, String artifactId, String pointer) {
  private static final Pattern INDEX = Pattern.compile("0|[1-9][0-9]{0,8}");

  /** What the pointer points to. */
  JsonNode find(JsonNode value) throws InvalidInputException {
    String decoded = decoded(pointer);
    if (decoded.isEmpty()) {
      return value;
    }
    if (!decoded.startsWith("/")) {
      throw new InvalidInputException(
          "what follows # is '%s'; a pointer is empty or begins with /"
              .formatted(Uris.shown(pointer)));
    }
    JsonNode found = value;
    for (String token : decoded.substring(1).split("/", -1)) {
      found = member(found, token.replace("~1", "/").replace("~0", "~"));
    }
    return found;
  }

  private static JsonNode member(JsonNode value, String token) throws InvalidInputException {
    if (value.isObject() && value.has(token)) {
      return value.get(token);
    }
    if (value.isArray() && INDEX.matcher(token).matches() && value.has(Integer.parseInt(token))) {
      return value.get(Integer.parseInt(token));
    }
    throw new InvalidInputException(
        "there is JSON of the kind %s where the pointer goes, which has no '%s'"
            .formatted(value.getNodeType(), Uris.shown(token)));
  }

  /** Percent-encoding undone; what is none stays. A plus is a plus here. */
  private static String decoded(String fragment) {
    byte[] bytes = fragment.getBytes(StandardCharsets.UTF_8);
    ByteBuffer to = ByteBuffer.allocate(bytes.length);
    for (int at = 0; at < bytes.length; at++) {
      boolean coded =
          bytes[at] == '%'
              && at + 2 < bytes.length
              && HexFormat.isHexDigit(bytes[at + 1])
              && HexFormat.isHexDigit(bytes[at + 2]);
      if (coded) {
        to.put(
            (byte)
                HexFormat.fromHexDigits(new String(bytes, at + 1, 2, StandardCharsets.US_ASCII)));
        at += 2;
      } else {
        to.put(bytes[at]);
      }
    }
    return new String(to.array(), 0, to.position(), StandardCharsets.UTF_8);
  }
}
