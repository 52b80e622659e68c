package io.taskyard.worker.json;

/** A task's input breaks a rule; trying again changes nothing. The message is for people. */
public final class InvalidInputException extends Exception {
  public InvalidInputException(String message) {
    super(message);
  }
}
