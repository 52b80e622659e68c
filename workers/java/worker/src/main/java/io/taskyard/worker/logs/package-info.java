/** The worker's own log, and the log lines of attempts until the scheduler has them. */
package io.taskyard.worker.logs;
