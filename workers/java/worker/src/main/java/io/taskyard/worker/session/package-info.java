/** Keeps the worker in touch with the scheduler, from its start to its end. */
package io.taskyard.worker.session;
