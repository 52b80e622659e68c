package io.taskyard.worker.artifacts;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import io.taskyard.worker.ArtifactException;
import io.taskyard.worker.Artifacts;
import io.taskyard.worker.TaskOutcome;
import io.taskyard.worker.json.InvalidInputException;
import io.taskyard.worker.json.TaskJson;
import io.taskyard.worker.lanes.AttemptFiles;
import io.taskyard.worker.lanes.Endings;
import io.taskyard.worker.text.Utf8;
import io.taskyard.worker.work.Attempt;
import io.taskyard.worker.work.Ending;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/** Artifacts around the handlers of this worker. */
public final class ArtifactFiles implements AttemptFiles {
  /** The most bytes of JSON that are put into an input: it has to fit into memory. */
  private static final int VALUE_BYTES = 256 * 1024 * 1024;

  private static final String SCHEME = "artifact:";

  private final ArtifactLink link;
  private final String workerId;
  private final Path scratch;

  /**
   * Uses a folder for files on their way, which is emptied here.
   *
   * @param link the way to the scheduler
   */
  public ArtifactFiles(ArtifactLink link, String workerId, Path scratch) throws IOException {
    this.link = link;
    this.workerId = workerId;
    this.scratch = scratch;
    Files.createDirectories(scratch);
    try (Stream<Path> left = Files.list(scratch)) { // of a life that was killed
      for (Path file : left.toList()) {
        Files.delete(file);
      }
    }
  }

  @Override
  public Artifacts of(Attempt attempt) {
    return artifacts(attempt);
  }

  private AttemptArtifacts artifacts(Attempt attempt) {
    return new AttemptArtifacts(link, scratch, Owner.of(workerId, attempt));
  }

  @Override
  public Ending stored(Attempt attempt, Ending ending) throws InterruptedException {
    if (!Endings.isLarge(ending)) {
      return ending;
    }
    try {
      InputStream json = new ByteArrayInputStream(Utf8.bytes(ending.output()));
      String uri =
          artifacts(attempt).upload(json, "output.json", "application/json", Patience.ENDLESS);
      return Ending.success("\"" + uri + "#\"", ending.metadata());
    } catch (ArtifactException error) {
      return notStored(error.kind(), error);
    } catch (IOException error) {
      return notStored(TaskOutcome.HANDLER_ERROR, error);
    }
  }

  private static Ending notStored(String kind, IOException error) {
    return Ending.failure(kind, "the output could not be stored: " + error.getMessage());
  }

  @Override
  public ObjectNode resolved(Attempt attempt, ObjectNode input)
      throws InvalidInputException, IOException, InterruptedException {
    boolean mayRefer =
        attempt.assignment().getInputJson().contains(SCHEME)
            || attempt.assignment().getParamsMap().values().stream()
                .anyMatch(text -> text.contains(SCHEME));
    return mayRefer ? (ObjectNode) new Resolver(artifacts(attempt)).resolved(input, "") : input;
  }

  /**
   * Replaces texts in one input; each artifact is fetched once. What is found is not looked into.
   */
  private static final class Resolver {
    private final AttemptArtifacts artifacts;
    private final Map<String, JsonNode> loaded = new HashMap<>();

    Resolver(AttemptArtifacts artifacts) {
      this.artifacts = artifacts;
    }

    JsonNode resolved(JsonNode value, String path)
        throws InvalidInputException, IOException, InterruptedException {
      switch (value) {
        case TextNode text -> {
          Optional<ValueReference> reference = Uris.value(text.textValue());
          return reference.isEmpty() ? value : found(reference.get(), path);
        }
        case ObjectNode object -> {
          for (Map.Entry<String, JsonNode> member : object.properties()) {
            String name = path.isEmpty() ? member.getKey() : path + "." + member.getKey();
            member.setValue(resolved(member.getValue(), name));
          }
        }
        case ArrayNode list -> {
          for (int place = 0; place < list.size(); place++) {
            list.set(place, resolved(list.get(place), path + "[" + place + "]"));
          }
        }
        default -> {}
      }
      return value;
    }

    private JsonNode found(ValueReference reference, String path)
        throws InvalidInputException, IOException, InterruptedException {
      try {
        JsonNode whole = loaded.get(reference.artifactId());
        if (whole == null) {
          whole = load(reference.artifactId());
          loaded.put(reference.artifactId(), whole);
        }
        return reference.find(whole).deepCopy();
      } catch (InvalidInputException error) {
        throw blame(reference, path, error);
      } catch (ArtifactException error) {
        if (error.kind().equals(TaskOutcome.INVALID_INPUT)) {
          throw blame(reference, path, error);
        }
        throw error;
      }
    }

    private static InvalidInputException blame(
        ValueReference reference, String path, Exception error) {
      return new InvalidInputException(
          "'%s' is '%s', which stands for nothing: %s"
              .formatted(path, Uris.shown(reference.text()), error.getMessage()));
    }

    private JsonNode load(String id)
        throws InvalidInputException, IOException, InterruptedException {
      try (InputStream content = artifacts.openId(id)) {
        byte[] data = content.readNBytes(VALUE_BYTES + 1);
        if (data.length > VALUE_BYTES) {
          throw new InvalidInputException(
              "its JSON has more than %d bytes; refer to the artifact itself, without #, and read it in pieces"
                  .formatted(VALUE_BYTES));
        }
        return TaskJson.value(data);
      }
    }
  }
}
