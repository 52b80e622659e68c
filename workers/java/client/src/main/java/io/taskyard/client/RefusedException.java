package io.taskyard.client;

import io.taskyard.connection.Details;
import io.taskyard.v1.Refusal;
import java.util.List;

/** The scheduler took the call, but not this submission. */
public final class RefusedException extends RuntimeException {
  private final String reason;
  private final transient List<Details.Violation> violations;

  RefusedException(Refusal refusal) {
    super(refusal.getReason() + ": " + refusal.getMessage());
    this.reason = refusal.getReason();
    this.violations =
        refusal.getViolationsList().stream()
            .map(one -> new Details.Violation(one.getField(), one.getDescription()))
            .toList();
  }

  /** Returns a fixed word for what is wrong. */
  public String reason() {
    return reason;
  }

  /** Returns the fields that are wrong, each with its rule. */
  public List<Details.Violation> violations() {
    return violations;
  }
}
