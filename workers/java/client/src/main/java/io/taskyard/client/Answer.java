package io.taskyard.client;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import io.taskyard.v1.Artifact;
import io.taskyard.v1.UploadArtifactResponse;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** The one answer to an upload. */
final class Answer implements StreamObserver<UploadArtifactResponse> {
  private final CompletableFuture<Artifact> artifact = new CompletableFuture<>();

  @Override
  public void onNext(UploadArtifactResponse response) {
    artifact.complete(response.getArtifact());
  }

  @Override
  public void onError(Throwable error) {
    artifact.completeExceptionally(
        Status.fromThrowable(error).asRuntimeException(Status.trailersFromThrowable(error)));
  }

  @Override
  public void onCompleted() {
    artifact.completeExceptionally(
        Status.INTERNAL.withDescription("the upload was not answered").asRuntimeException());
  }

  Artifact get() {
    try {
      return artifact.get();
    } catch (ExecutionException error) {
      throw TaskyardException.of((StatusRuntimeException) error.getCause());
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw TaskyardException.of(
          Status.CANCELLED.withDescription("interrupted while uploading").asRuntimeException());
    }
  }
}
