/** Where handlers run in the worker's process, and what they see of their attempt. */
package io.taskyard.worker.lanes;
