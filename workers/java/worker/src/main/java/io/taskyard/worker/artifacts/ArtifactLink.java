package io.taskyard.worker.artifacts;

import com.google.protobuf.ByteString;
import io.grpc.ManagedChannel;
import io.grpc.StatusException;
import io.grpc.stub.BlockingClientCall;
import io.taskyard.v1.ArtifactHead;
import io.taskyard.v1.ArtifactServiceGrpc;
import io.taskyard.v1.DownloadArtifactRequest;
import io.taskyard.v1.DownloadArtifactResponse;
import io.taskyard.v1.UploadArtifactRequest;
import io.taskyard.v1.UploadArtifactResponse;
import io.taskyard.worker.ArtifactException;
import io.taskyard.worker.TaskOutcome;
import io.taskyard.worker.link.LinkException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Supplier;

/** Artifacts over gRPC, each call tried once, on a channel of its own: bytes delay no heartbeat. */
public final class ArtifactLink implements AutoCloseable {
  private static final int PIECE_BYTES = 1024 * 1024;

  private final Supplier<ManagedChannel> channels;
  private ManagedChannel channel; // opened when it is first used

  public ArtifactLink(Supplier<ManagedChannel> channels) {
    this.channels = channels;
  }

  private synchronized ArtifactServiceGrpc.ArtifactServiceBlockingV2Stub stub() {
    if (channel == null) {
      channel = channels.get();
    }
    channel.resetConnectBackoff(); // waits are ours
    return ArtifactServiceGrpc.newBlockingV2Stub(channel);
  }

  /** Sends an artifact; returns its id once it is durable. */
  String upload(ArtifactHead head, Path file)
      throws LinkException, ArtifactException, InterruptedException {
    BlockingClientCall<UploadArtifactRequest, UploadArtifactResponse> call =
        stub().uploadArtifact();
    boolean whole = false;
    try (InputStream content = Files.newInputStream(file)) {
      boolean open = call.write(UploadArtifactRequest.newBuilder().setHead(head).build());
      for (byte[] piece = content.readNBytes(PIECE_BYTES);
          open && piece.length > 0;
          piece = content.readNBytes(PIECE_BYTES)) {
        ByteString data = ByteString.copyFrom(piece);
        open = call.write(UploadArtifactRequest.newBuilder().setData(data).build());
      }
      call.halfClose();
      UploadArtifactResponse answer = call.read();
      whole = answer != null;
      if (!whole) {
        throw ended("the upload ended without an answer");
      }
      return answer.getArtifact().getArtifactId();
    } catch (StatusException error) {
      throw LinkException.of(error);
    } catch (IOException error) {
      throw new ArtifactException(TaskOutcome.HANDLER_ERROR, "cannot be read again: " + error);
    } finally {
      if (!whole) {
        call.cancel("given up", null);
      }
    }
  }

  static LinkException ended(String message) {
    return LinkException.of(io.grpc.Status.UNAVAILABLE.withDescription(message).asException());
  }

  /** Begins to receive an artifact. */
  BlockingClientCall<?, DownloadArtifactResponse> download(DownloadArtifactRequest request) {
    return stub().downloadArtifact(request);
  }

  @Override
  public synchronized void close() {
    if (channel != null) {
      channel.shutdownNow();
    }
  }
}
