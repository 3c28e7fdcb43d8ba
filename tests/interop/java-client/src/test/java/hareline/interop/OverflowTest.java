package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.Channel;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Full queues: this client waits at channel.flow, and hears of refused publishes. */
class OverflowTest extends BrokerCase {
  private String limited(int length, String overflow) throws Exception {
    Map<String, Object> arguments = Map.of("x-max-length", length, "x-overflow", overflow);
    return channel.queueDeclare("", false, true, false, arguments).getQueue();
  }

  /** Both channels are of one connection, so a socket that is not read would be the end of it. */
  @Tag("A23")
  @Test
  void aPublisherWaitsAtChannelFlowUntilThereIsRoom() throws Exception {
    String full = limited(10, "flow-control");
    Channel publishing = connection.createChannel();
    AtomicInteger published = new AtomicInteger();
    AtomicBoolean isEnough = new AtomicBoolean();
    Thread publisher =
        new Thread(
            () -> {
              try {
                while (!isEnough.get()) {
                  publishing.basicPublish("", full, null, bytes("x"));
                  published.incrementAndGet();
                }
              } catch (Exception failure) {
                throw new IllegalStateException(failure);
              }
            });
    publisher.start();
    until(() -> publisher.getState() == Thread.State.WAITING, "the publisher waits");
    int before = published.get();
    assertTrue(before >= 11, before + " were published");
    isEnough.set(true);
    awaitReady(full, before);
    assertTrue(publisher.isAlive());
    int taken = drain(channel, full).size();
    publisher.join(PATIENCE_MS);
    assertFalse(publisher.isAlive());
    awaitReady(full, published.get() - taken);
    assertEquals(before + 1, published.get());
  }

  @Tag("A25")
  @Test
  void refusedPublishesAreNacked() throws Exception {
    String full = limited(5, "reject-publish");
    channel.confirmSelect();
    AtomicInteger refused = new AtomicInteger();
    AtomicInteger answered = new AtomicInteger();
    AtomicInteger lastTag = new AtomicInteger();
    channel.addConfirmListener(
        (tag, isMultiple) -> answered.addAndGet(isMultiple ? span(lastTag, tag) : one(lastTag, tag)),
        (tag, isMultiple) -> {
          int count = isMultiple ? span(lastTag, tag) : one(lastTag, tag);
          refused.addAndGet(count);
          answered.addAndGet(count);
        });
    for (int i = 0; i < 20; i++) {
      channel.basicPublish("", full, null, bytes("x"));
    }
    assertFalse(channel.waitForConfirms(PATIENCE_MS));
    until(() -> answered.get() == 20, "everything is answered");
    assertEquals(15, refused.get());
    assertEquals(5, channel.messageCount(full));
  }

  private static int span(AtomicInteger lastTag, long tag) {
    return (int) tag - lastTag.getAndSet((int) tag);
  }

  private static int one(AtomicInteger lastTag, long tag) {
    lastTag.set((int) tag);
    return 1;
  }
}
