/**
 * What outlives the worker's process: its id, results that are not acknowledged, keys, log lines.
 */
package io.taskyard.worker.disk;
