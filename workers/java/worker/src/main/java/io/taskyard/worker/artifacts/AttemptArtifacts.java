package io.taskyard.worker.artifacts;

import io.taskyard.v1.ArtifactHead;
import io.taskyard.worker.ArtifactException;
import io.taskyard.worker.Artifacts;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.UUID;

/** Artifacts of one attempt. */
final class AttemptArtifacts implements Artifacts {
  private final ArtifactLink link;
  private final Path scratch;
  private final Owner owner;

  AttemptArtifacts(ArtifactLink link, Path scratch, Owner owner) {
    this.link = link;
    this.scratch = scratch;
    this.owner = owner;
  }

  @Override
  public InputStream open(String uri) throws IOException, InterruptedException {
    return openId(Uris.id(uri));
  }

  InputStream openId(String id) throws IOException, InterruptedException {
    return new ArtifactStream(link, owner.name(), id).opened();
  }

  @Override
  public void download(String uri, Path to) throws IOException, InterruptedException {
    Path folder = to.toAbsolutePath().getParent();
    Path part = Files.createTempFile(folder, "." + to.getFileName(), ".part");
    try (InputStream content = open(uri)) {
      Files.copy(content, part, StandardCopyOption.REPLACE_EXISTING);
      Files.move(part, to, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
    } finally {
      Files.deleteIfExists(part);
    }
  }

  @Override
  public String upload(InputStream content, String name, String mediaType)
      throws IOException, InterruptedException {
    return upload(content, name, mediaType, Patience.MINUTE);
  }

  String upload(InputStream content, String name, String mediaType, Duration patience)
      throws IOException, InterruptedException {
    try (Scratch file = Scratch.of(scratch, content)) {
      ArtifactHead head =
          ArtifactHead.newBuilder()
              .setName(name)
              .setMediaType(mediaType)
              .setSize(file.size())
              .setSha256(file.sha256())
              .setRequestId(UUID.randomUUID().toString())
              .setAttempt(owner.name())
              .build();
      return Uris.of(uploaded(head, file, patience));
    }
  }

  private String uploaded(ArtifactHead head, Scratch file, Duration patience)
      throws ArtifactException, InterruptedException {
    return Patience.with(patience, () -> link.upload(head, file.path()));
  }
}
