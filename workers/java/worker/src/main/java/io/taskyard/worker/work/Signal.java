package io.taskyard.worker.work;

import java.time.Duration;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** A condition that is on or off, and that threads wait for. */
public final class Signal {
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private boolean on;

  public Signal(boolean on) {
    this.on = on;
  }

  /** Turns it on or off. */
  public void set(boolean value) {
    lock.lock();
    try {
      on = value;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /** Whether it is on. */
  public boolean isOn() {
    lock.lock();
    try {
      return on;
    } finally {
      lock.unlock();
    }
  }

  /** Waits until it is on. */
  public void await() throws InterruptedException {
    await(Duration.ofDays(36_500));
  }

  /** Waits until it is on, at most so long; returns whether it is. */
  public boolean await(Duration limit) throws InterruptedException {
    long left = limit.toNanos();
    lock.lock();
    try {
      while (!on && left > 0) {
        left = changed.awaitNanos(left);
      }
      return on;
    } finally {
      lock.unlock();
    }
  }

  /** Waits until it is on, at most so long, and turns it off. */
  public boolean take(Duration limit) throws InterruptedException {
    lock.lock();
    try {
      boolean was = await(limit);
      on = false;
      return was;
    } finally {
      lock.unlock();
    }
  }
}
