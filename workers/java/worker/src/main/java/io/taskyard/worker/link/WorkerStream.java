package io.taskyard.worker.link;

import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.taskyard.v1.AssignTaskRequest;
import io.taskyard.v1.AssignTaskResponse;
import io.taskyard.v1.WorkerServiceGrpc.WorkerServiceStub;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** One call of AssignTask. Frames are sent by one thread; what comes is told to the listener. */
public final class WorkerStream {

  /** Who is told what the stream brings, on gRPC's thread: it must not block. */
  public interface Listener {
    /** A frame came. */
    void received(WorkerStream stream, AssignTaskResponse frame);

    /** There is room for further frames. */
    void ready(WorkerStream stream);
  }

  private final Listener listener;
  private final CompletableFuture<Optional<LinkException>> ended = new CompletableFuture<>();
  private volatile ClientCallStreamObserver<AssignTaskRequest> call;

  private WorkerStream(Listener listener) {
    this.listener = listener;
  }

  static WorkerStream open(WorkerServiceStub stub, Listener listener) {
    WorkerStream stream = new WorkerStream(listener);
    stub.assignTask(stream.new Receiver());
    return stream;
  }

  /** Whether the transport takes a frame now; it tells the listener when it does again. */
  public boolean isReady() {
    return call.isReady();
  }

  /** Sends a frame. One that the stream cannot carry any more is lost: the next one repeats it. */
  public void send(AssignTaskRequest frame) {
    if (!ended.isDone()) {
      try {
        call.onNext(frame);
      } catch (IllegalStateException error) { // cancelled meanwhile: `ended` tells
        close();
      }
    }
  }

  /** Ends the call. */
  public void close() {
    ended.complete(Optional.empty());
    call.cancel("the worker opens another stream", null);
  }

  /** Waits for its end; empty when it was closed, here or there. */
  public Optional<LinkException> awaitEnd() throws InterruptedException {
    try {
      return ended.get();
    } catch (java.util.concurrent.ExecutionException error) {
      throw new IllegalStateException("the end of a stream is always told as a value", error);
    }
  }

  private final class Receiver
      implements ClientResponseObserver<AssignTaskRequest, AssignTaskResponse> {
    @Override
    public void beforeStart(ClientCallStreamObserver<AssignTaskRequest> outgoing) {
      call = outgoing;
      outgoing.setOnReadyHandler(() -> listener.ready(WorkerStream.this));
    }

    @Override
    public void onNext(AssignTaskResponse frame) {
      listener.received(WorkerStream.this, frame);
    }

    @Override
    public void onError(Throwable error) {
      ended.complete(Optional.of(LinkException.of(error)));
    }

    @Override
    public void onCompleted() {
      ended.complete(Optional.empty());
    }
  }
}
