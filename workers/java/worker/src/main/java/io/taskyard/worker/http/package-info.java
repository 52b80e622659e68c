/** What the worker tells over HTTP: whether it lives, whether it takes tasks, and its figures. */
package io.taskyard.worker.http;
