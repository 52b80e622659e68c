package io.taskyard.builtin.text;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/** The operations of `text_process`, with the results that docs/text-operations.md specifies. */
public enum TextOperation {
  /** The sentences that say most. */
  SUMMARIZE(Summary.MAX_SENTENCES.name()) {
    @Override
    Object run(Options given) {
      int most = Summary.MAX_SENTENCES.read(given);
      return Summary.summarize(given.text(), most);
    }
  },
  /** Chunks of bounded length. */
  SPLIT(Splitting.MAX_CHARS.name(), Splitting.OVERLAP.name()) {
    @Override
    Object run(Options given) {
      int limit = Splitting.MAX_CHARS.read(given);
      int overlap = Splitting.OVERLAP.read(given);
      if (2 * overlap > limit) {
        String rule = "must be at most half of max_chars, which is " + limit;
        String remedy = "Give at most %d, or a larger max_chars.".formatted(limit / 2);
        throw new TextInputException("overlap", given.get("overlap"), rule, remedy);
      }
      return Splitting.split(given.text(), limit, overlap);
    }
  },
  /** The text without what nobody sees. */
  CLEAN(Cleaning.KEEP_LINES.name()) {
    @Override
    Object run(Options given) {
      boolean keepLines = Cleaning.KEEP_LINES.read(given);
      return Cleaning.clean(given.text(), keepLines);
    }
  },
  /** The terms that it repeats most. */
  KEYWORDS(Keywords.TOP_K.name()) {
    @Override
    Object run(Options given) {
      int most = Keywords.TOP_K.read(given);
      return Keywords.keywords(given.text(), most);
    }
  },
  /** How much of what it holds. */
  STATISTICS {
    @Override
    Object run(Options given) {
      return Statistics.statistics(given.text());
    }
  };

  @SuppressWarnings("ImmutableEnumChecker") // made by List.of
  private final List<String> options;

  TextOperation(String... options) {
    this.options = List.of(options);
  }

  abstract Object run(Options given);

  /**
   * The output of a task.
   *
   * @param input `text`, `operation` and the operation's options; null counts as left out
   * @return what JSON can hold, the same on every worker
   * @throws TextInputException the text is none, or an operation, an option or its value is not
   *     known
   */
  public static Map<String, Object> process(ObjectNode input) {
    TextOperation chosen = chosen(new Options(input).get("operation"));
    for (Map.Entry<String, JsonNode> each : input.properties()) {
      chosen.check(each.getKey(), each.getValue());
    }
    return Map.of("result", chosen.run(new Options(input)));
  }

  private void check(String name, JsonNode value) {
    boolean known = name.equals("text") || name.equals("operation") || options.contains(name);
    if (!known && !value.isNull()) {
      String has = options.isEmpty() ? "none" : String.join(", ", options);
      String rule = "is no option of %s, which has %s".formatted(label(), has);
      String remedy = "Leave it out, or correct its name or the operation.";
      throw new TextInputException(name, value, rule, remedy);
    }
  }

  private static TextOperation chosen(JsonNode name) {
    if (name == null) {
      return SUMMARIZE;
    }
    Optional<TextOperation> found =
        Arrays.stream(values())
            .filter(each -> name.isTextual() && each.label().equals(name.textValue()))
            .findFirst();
    return found.orElseThrow(() -> {
      String all =
          Arrays.stream(values()).map(TextOperation::label).collect(Collectors.joining(", "));
      String remedy = "Give one of them, or leave it out for summarize.";
      return new TextInputException("operation", name, "must be one of " + all, remedy);
    });
  }

  private String label() {
    return name().toLowerCase(java.util.Locale.ROOT);
  }
}
