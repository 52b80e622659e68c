package io.taskyard.worker.http;

import io.prometheus.metrics.core.metrics.CounterWithCallback;
import io.prometheus.metrics.core.metrics.GaugeWithCallback;
import io.prometheus.metrics.core.metrics.Histogram;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import io.taskyard.v1.TaskStatus;
import io.taskyard.worker.work.Observer;
import java.time.Duration;
import java.util.function.ToDoubleFunction;

/** What the worker counts, under the names that every Taskyard worker uses. */
public final class WorkerMetrics implements Observer {
  private static final double[] BUCKETS_S = {0.1, 0.5, 1, 2, 5, 10, 30};
  private static final String STATUS_PREFIX = "TASK_STATUS_";

  private final PrometheusRegistry registry = new PrometheusRegistry();
  private final Histogram durations =
      Histogram.builder()
          .name("workflow_task_duration_seconds")
          .help("How long attempts ran on this worker, in seconds")
          .labelNames("task_type", "status")
          .classicOnly()
          .classicUpperBounds(BUCKETS_S)
          .register(registry);

  @Override
  public void ended(String taskType, TaskStatus status, Duration ran) {
    String name = status.name().substring(STATUS_PREFIX.length());
    durations.labelValues(taskType, name).observe(ran.toNanos() / 1e9);
  }

  /** Shows the figures of a worker beside what is counted here. */
  public void show(Figures figures) {
    gauge("active_attempts", "Attempts that run now", figures, Figures::activeAttempts);
    gauge(
        "unacknowledged_results",
        "Results that the scheduler has not acknowledged",
        figures,
        Figures::unacknowledgedResults);
    gauge("connected", "1 while a stream is open", figures, each -> each.connected() ? 1 : 0);
    gauge("streams_opened", "Streams opened since the start", figures, Figures::streamsOpened);
    CounterWithCallback.builder()
        .name("taskyard_worker_log_lines_dropped")
        .help("Log lines not kept because there were too many")
        .callback(told -> told.call((double) figures.droppedLogLines()))
        .register(registry);
  }

  private void gauge(String name, String help, Figures of, ToDoubleFunction<Figures> read) {
    GaugeWithCallback.builder()
        .name("taskyard_worker_" + name)
        .help(help)
        .callback(told -> told.call(read.applyAsDouble(of)))
        .register(registry);
  }

  PrometheusRegistry registry() {
    return registry;
  }
}
