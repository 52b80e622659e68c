package io.taskyard.worker.artifacts;

import com.google.protobuf.ByteString;
import io.grpc.StatusException;
import io.grpc.stub.BlockingClientCall;
import io.taskyard.v1.Artifact;
import io.taskyard.v1.ArtifactAttempt;
import io.taskyard.v1.DownloadArtifactRequest;
import io.taskyard.v1.DownloadArtifactResponse;
import io.taskyard.worker.ArtifactException;
import io.taskyard.worker.TaskOutcome;
import io.taskyard.worker.link.LinkException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Optional;

/**
 * An artifact on its way here, over as many calls as it takes. The last piece is given out once all
 * are known to be right.
 */
final class ArtifactStream extends InputStream {
  private final ArtifactLink link;
  private final ArtifactAttempt owner;
  private final String id;
  private final MessageDigest digest = Scratch.newDigest();
  private BlockingClientCall<?, DownloadArtifactResponse> call;
  private Artifact artifact;
  private long received;
  private InputStream piece = InputStream.nullInputStream();
  private ByteString held = ByteString.EMPTY;
  private boolean over;

  ArtifactStream(ArtifactLink link, ArtifactAttempt owner, String id) {
    this.link = link;
    this.owner = owner;
    this.id = id;
  }

  /** Waits for the first bytes, so that what is not there is told at once. */
  ArtifactStream opened() throws IOException, InterruptedException {
    Optional<ByteString> first = next();
    if (first.isPresent()) {
      held = first.get();
    } else {
      finish();
    }
    return this;
  }

  @Override
  public int read() throws IOException {
    byte[] one = new byte[1];
    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
  }

  @Override
  public int read(byte[] to, int offset, int length) throws IOException {
    int count = piece.read(to, offset, length);
    while (count < 0 && !over) {
      advance();
      count = piece.read(to, offset, length);
    }
    return count;
  }

  private void advance() throws IOException {
    try {
      Optional<ByteString> following = next();
      if (following.isEmpty()) {
        finish();
      }
      piece = held.newInput();
      held = following.orElse(ByteString.EMPTY);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw (IOException)
          new InterruptedIOException("the attempt was told to stop").initCause(error);
    }
  }

  private void finish() throws ArtifactException {
    over = true;
    if (!HexFormat.of().formatHex(digest.digest()).equals(artifact.getSha256())) {
      throw new ArtifactException(
          TaskOutcome.HANDLER_ERROR,
          "artifact %s is damaged: what came has not the SHA-256 that it was stored with"
              .formatted(id));
    }
  }

  /** The next bytes; empty when all are here. */
  private Optional<ByteString> next() throws ArtifactException, InterruptedException {
    return Patience.with(Patience.MINUTE, this::tryNext);
  }

  private Optional<ByteString> tryNext() throws LinkException, InterruptedException {
    try {
      while (artifact == null || received < artifact.getSize()) {
        DownloadArtifactResponse answer = call().read();
        if (answer == null) {
          throw ArtifactLink.ended("the download ended before all was there");
        }
        if (answer.hasArtifact()) {
          artifact = answer.getArtifact();
        } else if (!answer.getData().isEmpty()) {
          return Optional.of(taken(answer.getData()));
        }
      }
      return Optional.empty();
    } catch (StatusException error) {
      hangUp();
      throw LinkException.of(error);
    } catch (LinkException error) {
      hangUp();
      throw error;
    }
  }

  private ByteString taken(ByteString data) {
    received += data.size();
    data.asReadOnlyByteBufferList().forEach(digest::update);
    return data;
  }

  private BlockingClientCall<?, DownloadArtifactResponse> call() {
    if (call == null) {
      call =
          link.download(
              DownloadArtifactRequest.newBuilder()
                  .setArtifactId(id)
                  .setOffset(received)
                  .setAttempt(owner)
                  .build());
    }
    return call;
  }

  private void hangUp() {
    if (call != null) {
      call.cancel("given up", null);
      call = null;
    }
  }

  @Override
  public void close() {
    over = true;
    hangUp();
  }
}
