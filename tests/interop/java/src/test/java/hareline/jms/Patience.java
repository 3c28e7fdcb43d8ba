package hareline.jms;

import static org.junit.jupiter.api.Assertions.fail;

import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;

/**
 * Waiting for a condition, the only way that the cases spend time.
 *
 * <p>Invariant: a wait returns as soon as its condition holds, and fails with a sentence that names
 * it when the limit has passed.
 */
public final class Patience {
  /** How long anything that must happen may take, in milliseconds. */
  public static final long PATIENCE_MS = 10_000;

  private Patience() {}

  /** Wait until the condition holds, {@link #PATIENCE_MS} at most. */
  public static void until(Callable<Boolean> holds, String what) throws Exception {
    until(PATIENCE_MS, holds, what);
  }

  /** Wait until the condition holds, {@code limitMs} at most. */
  public static void until(long limitMs, Callable<Boolean> holds, String what) throws Exception {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limitMs);
    while (!holds.call()) {
      if (System.nanoTime() > deadline) {
        fail("waited " + limitMs + " ms until " + what);
      }
      TimeUnit.MILLISECONDS.sleep(5);
    }
  }
}
