package io.taskyard.client;

import com.google.protobuf.ByteString;
import io.grpc.stub.StreamObserver;
import io.taskyard.v1.Artifact;
import io.taskyard.v1.ArtifactHead;
import io.taskyard.v1.ArtifactServiceGrpc;
import io.taskyard.v1.DownloadArtifactRequest;
import io.taskyard.v1.DownloadArtifactResponse;
import io.taskyard.v1.UploadArtifactRequest;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** Moves artifacts. */
public final class ArtifactCalls {
  private static final int CHUNK_BYTES = 1024 * 1024;

  private final Calls calls;

  ArtifactCalls(Calls calls) {
    this.calls = calls;
  }

  /** Uploads bytes; when this returns they are durable, and their SHA-256 was compared. */
  public Artifact upload(String name, String mediaType, byte[] bytes) {
    Answer answer = new Answer();
    var out =
        ArtifactServiceGrpc.newStub(calls.channel())
            .withDeadlineAfter(calls.timeout().toNanos(), TimeUnit.NANOSECONDS)
            .uploadArtifact(answer);
    send(out, head(name, mediaType, bytes), bytes);
    return answer.get();
  }

  /** Returns an artifact's bytes, whose SHA-256 was compared. */
  public byte[] download(String artifactId) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try {
      download(artifactId, bytes);
    } catch (IOException error) {
      throw new IllegalStateException("memory cannot fail to be written", error);
    }
    return bytes.toByteArray();
  }

  /**
   * Writes an artifact's bytes.
   *
   * @throws IOException they cannot be written, or are not those that were uploaded
   */
  public Artifact download(String artifactId, OutputStream into) throws IOException {
    DownloadArtifactRequest request =
        DownloadArtifactRequest.newBuilder().setArtifactId(artifactId).build();
    MessageDigest digest = sha256();
    Artifact head = Artifact.getDefaultInstance();
    Iterator<DownloadArtifactResponse> parts =
        Calls.call(() -> calls.artifacts().downloadArtifact(request));
    while (Calls.call(parts::hasNext)) {
      DownloadArtifactResponse part = parts.next();
      head = part.hasArtifact() ? part.getArtifact() : head;
      digest.update(part.getData().asReadOnlyByteBuffer());
      part.getData().writeTo(into);
    }
    check(head, digest);
    return head;
  }

  private static void check(Artifact head, MessageDigest digest) throws IOException {
    String got = HexFormat.of().formatHex(digest.digest());
    if (!got.equals(head.getSha256())) {
      throw new IOException(
          head.getUri() + " came with SHA-256 " + got + " instead of " + head.getSha256());
    }
  }

  private static ArtifactHead head(String name, String mediaType, byte[] bytes) {
    return ArtifactHead.newBuilder()
        .setName(name)
        .setMediaType(mediaType)
        .setSize(bytes.length)
        .setSha256(HexFormat.of().formatHex(sha256().digest(bytes)))
        .setRequestId(UUID.randomUUID().toString())
        .build();
  }

  private static void send(
      StreamObserver<UploadArtifactRequest> out, ArtifactHead head, byte[] bytes) {
    out.onNext(UploadArtifactRequest.newBuilder().setHead(head).build());
    for (int at = 0; at < bytes.length; at += CHUNK_BYTES) {
      ByteString chunk = ByteString.copyFrom(bytes, at, Math.min(CHUNK_BYTES, bytes.length - at));
      out.onNext(UploadArtifactRequest.newBuilder().setData(chunk).build());
    }
    out.onCompleted();
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException("every JDK has SHA-256", error);
    }
  }
}
