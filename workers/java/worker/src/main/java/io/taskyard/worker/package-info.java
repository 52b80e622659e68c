/** What a handler written in Java needs, and the worker that runs it. */
package io.taskyard.worker;
