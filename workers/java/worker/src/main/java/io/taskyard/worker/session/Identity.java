package io.taskyard.worker.session;

import io.taskyard.v1.RegisterRequest;
import io.taskyard.v1.Resources;
import io.taskyard.worker.settings.WorkerSettings;
import java.util.Collection;

/** Who registers: the fields of RegisterRequest, which explains them. */
public record Identity(RegisterRequest request) {

  /** Who a worker with these settings is. */
  public static Identity of(
      WorkerSettings settings, String workerId, int port, Collection<String> capabilities) {
    RegisterRequest.Builder request =
        RegisterRequest.newBuilder()
            .setWorkerId(workerId)
            .setHost(settings.host())
            .setPort(port)
            .addAllCapabilities(capabilities)
            .setMaxConcurrency(settings.concurrency())
            .setProtocol("grpc")
            .putAllLabels(settings.labels())
            .setBuildId(build());
    WorkerSettings.Offer offer = settings.offer();
    if (offer.cpuMillis() > 0 || offer.memoryMb() > 0 || offer.gpus() > 0) {
      request.setResources(
          Resources.newBuilder()
              .setCpuMillis(offer.cpuMillis())
              .setMemoryMb(offer.memoryMb())
              .setGpus(offer.gpus()));
    }
    return new Identity(request.build());
  }

  private static String build() {
    String version = Identity.class.getPackage().getImplementationVersion();
    return version == null ? "" : "taskyard-worker-java " + version;
  }

  String workerId() {
    return request.getWorkerId();
  }
}
