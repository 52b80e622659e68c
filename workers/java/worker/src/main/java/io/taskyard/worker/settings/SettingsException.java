package io.taskyard.worker.settings;

/** Some settings are wrong; the message has a sentence for each. */
public final class SettingsException extends RuntimeException {
  public SettingsException(String message) {
    super(message);
  }
}
