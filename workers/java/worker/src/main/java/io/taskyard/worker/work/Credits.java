package io.taskyard.worker.work;

/**
 * How many assignments may come on a stream: a total that only grows, and is never more than free
 * slots can take.
 */
final class Credits {
  private final int slots;
  private long told;
  private long received;

  Credits(int slots) {
    this.slots = slots;
  }

  /** Begins anew with a stream while so many attempts run; returns the total to tell first. */
  long begin(int running) {
    received = 0;
    told = total(running);
    return told;
  }

  /** Counts an assignment that this stream brought. */
  void receive() {
    received++;
  }

  /** The total when it is more than was told, which counts as told from now on; else 0. */
  long grown(int running) {
    long total = total(running);
    if (total <= told) {
      return 0;
    }
    told = total;
    return total;
  }

  private long total(int running) {
    return received + Math.max(0, slots - running);
  }
}
