package io.taskyard.builtin.llm;

import dev.langchain4j.exception.HttpException;
import io.taskyard.builtin.input.Refusal;
import java.io.IOException;
import java.util.Set;

/** Which failures of an endpoint another attempt may mend. */
final class Failures {
  private static final Set<Integer> PASSING = Set.of(408, 425, 429);
  private static final String NO_CREDIT = "insufficient_quota";
  private static final int SHOWN = 500;

  private Failures() {}

  /** What is thrown for an error: a refusal, or what is tried again. */
  static Exception of(Throwable error, Endpoint endpoint) {
    String asked = "POST %s/chat/completions".formatted(endpoint);
    for (Throwable each = error; each != null; each = each.getCause()) {
      if (each instanceof Refusal refusal) {
        return refusal;
      }
      if (each instanceof HttpException answered) {
        return answered(asked, answered, endpoint);
      }
    }
    String told = endpoint.withoutKey(String.valueOf(error.getMessage()));
    return new IOException("%s: no answer, or half of one: %s".formatted(asked, shown(told)));
  }

  private static Exception answered(String asked, HttpException error, Endpoint endpoint) {
    int status = error.statusCode();
    String body = endpoint.withoutKey(String.valueOf(error.getMessage()));
    String text =
        "%s was answered %d%s: %s".formatted(asked, status, hint(status, endpoint), shown(body));
    boolean lasting = status >= 300 && status < 500 && !PASSING.contains(status);
    return lasting || body.contains(NO_CREDIT)
        ? Refusal.nonRetryable("%s", text)
        : new IOException(text);
  }

  private static String hint(int status, Endpoint endpoint) {
    if (status != 401 && status != 403) {
      return "";
    }
    String why = endpoint.key() == null ? "not set" : "not the right one";
    return " (TASKYARD_LLM_API_KEY of the worker is %s)".formatted(why);
  }

  private static String shown(String text) {
    String line = text.strip().replaceAll("\\s+", " ");
    return line.length() <= SHOWN ? line : line.substring(0, SHOWN) + "…";
  }
}
