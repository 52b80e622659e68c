/** What the worker has: attempts, their results, and what there is to say of them on the stream. */
package io.taskyard.worker.work;
