package io.taskyard.worker.session;

import io.taskyard.v1.RegisterRequest;
import io.taskyard.v1.Resources;
import io.taskyard.worker.TaskRegistry;
import io.taskyard.worker.settings.SettingsException;
import io.taskyard.worker.settings.WorkerSettings;
import java.util.LinkedHashMap;
import java.util.Map;

/** Who registers: the fields of RegisterRequest, which explains them. */
public record Identity(RegisterRequest request) {

  private static final int MAX_LABELS = 64;

  /**
   * Who a worker with these settings and handlers is.
   *
   * @param port of its HTTP endpoints; 0: it has none
   * @throws SettingsException settings and handlers together give too many labels
   */
  public static Identity of(
      WorkerSettings settings, String workerId, int port, TaskRegistry registry) {
    RegisterRequest.Builder request =
        RegisterRequest.newBuilder()
            .setWorkerId(workerId)
            .setHost(settings.host())
            .setPort(port)
            .addAllCapabilities(registry.entries().keySet())
            .setMaxConcurrency(settings.concurrency())
            .setProtocol("grpc")
            .putAllLabels(labels(settings, registry))
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

  private static Map<String, String> labels(WorkerSettings settings, TaskRegistry registry) {
    Map<String, String> labels = new LinkedHashMap<>(registry.labels());
    labels.putAll(settings.labels());
    if (labels.size() > MAX_LABELS) {
      throw new SettingsException(
          ("TASKYARD_LABELS and the handlers give %d labels together (the handlers: %s):"
                  + " a worker has at most %d.")
              .formatted(labels.size(), registry.labels().keySet(), MAX_LABELS));
    }
    return labels;
  }

  private static String build() {
    String version = Identity.class.getPackage().getImplementationVersion();
    return version == null ? "" : "taskyard-worker-java " + version;
  }

  String workerId() {
    return request.getWorkerId();
  }
}
