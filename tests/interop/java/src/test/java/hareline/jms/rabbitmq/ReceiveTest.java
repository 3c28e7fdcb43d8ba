package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Receiving, which this client does by polling with basic.get. */
class ReceiveTest extends RabbitCase {
  @Tag("M19")
  @Test
  void anEmptyQueueGivesNothing() throws Exception {
    MessageConsumer consumer = session.createConsumer(queue());
    assertNull(consumer.receiveNoWait());
    assertNull(consumer.receive(150));
  }

  @Tag("M19")
  @Test
  void manyEmptyPollsAreQuick() throws Exception {
    Queue queue = queue();
    MessageConsumer consumer = session.createConsumer(queue);
    long started = System.nanoTime();
    for (int i = 0; i < 2_000; i++) {
      assertNull(consumer.receiveNoWait());
    }
    long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - started);
    assertTrue(tookMs < PATIENCE_MS, () -> "2000 polls took " + tookMs + " ms");
    send(queue, "at last");
    assertEquals("at last", takeText(consumer));
  }

  @Tag("M19")
  @Test
  void receiveTakesWhatComesWhileItPolls() throws Exception {
    Queue queue = queue();
    MessageConsumer consumer = session(Session.AUTO_ACKNOWLEDGE).createConsumer(queue);
    ExecutorService thread = Executors.newSingleThreadExecutor();
    try {
      Future<Message> received = thread.submit(() -> consumer.receive(PATIENCE_MS));
      for (int i = 0; i < 3; i++) {
        MessageConsumer other = session.createConsumer(queue);
        assertNull(other.receive(60));
        other.close();
      }
      send(queue, "late");
      assertEquals("late", text(received.get(PATIENCE_MS, TimeUnit.MILLISECONDS)));
    } finally {
      thread.shutdownNow();
    }
  }

  @Tag("M19")
  @Test
  void manyPollingConsumersShareAQueue() throws Exception {
    Queue queue = queue();
    int count = 60;
    Set<String> taken = Collections.synchronizedSet(new TreeSet<>());
    ExecutorService threads = Executors.newCachedThreadPool();
    try {
      List<Future<Integer>> pollers = new ArrayList<>();
      for (int i = 0; i < 4; i++) {
        MessageConsumer consumer = session(Session.AUTO_ACKNOWLEDGE).createConsumer(queue);
        pollers.add(
            threads.submit(
                () -> {
                  int own = 0;
                  while (taken.size() < count) {
                    Message next = consumer.receive(50);
                    if (next != null) {
                      taken.add(text(next));
                      own++;
                    }
                  }
                  return own;
                }));
      }
      send(queue, numbers(0, count));
      int total = 0;
      for (Future<Integer> each : pollers) {
        total += each.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
      }
      assertEquals(count, total, "each message once");
    } finally {
      threads.shutdownNow();
    }
    assertEquals(new TreeSet<>(List.of(numbers(0, count))), taken);
  }

  @Tag("M19")
  @Test
  void aPassiveDeclareCountsWhatIsReadyOnly() throws Exception {
    Queue queue = queue();
    fill(queue, numbers(0, 10));
    Session own = session(Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer = own.createConsumer(queue);
    takeTexts(consumer, 4);
    assertEquals(6, observer.ready(queue.getQueueName()));
    own.recover();
    observer.awaitReady(queue.getQueueName(), 10);
  }

  @Test
  void oneSessionPollsSeveralQueues() throws Exception {
    Queue left = queue();
    Queue right = queue();
    MessageConsumer ofLeft = session.createConsumer(left);
    MessageConsumer ofRight = session.createConsumer(right);
    fill(left, "l");
    fill(right, "r");
    assertEquals("r", takeText(ofRight));
    assertEquals("l", takeText(ofLeft));
    assertNothing(ofLeft);
    assertNothing(ofRight);
  }
}
