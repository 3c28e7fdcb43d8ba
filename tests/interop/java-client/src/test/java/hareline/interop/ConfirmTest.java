package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConfirmListener;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.ShutdownSignalException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.NavigableSet;
import java.util.TreeSet;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Publisher confirms. */
class ConfirmTest extends BrokerCase {
  @BeforeEach
  void selectConfirms() throws Exception {
    channel.confirmSelect();
  }

  @Test
  void transientAndPersistentPublishesAreConfirmed() throws Exception {
    String durable = channel.queueDeclare(uniqueName("kept"), true, true, false, null).getQueue();
    for (String target : List.of(queue, durable)) {
      for (int i = 0; i < 100; i++) {
        channel.basicPublish("", target, MessageProperties.BASIC, bytes("transient"));
        channel.basicPublish("", target, MessageProperties.PERSISTENT_BASIC, bytes("persistent"));
      }
      channel.waitForConfirmsOrDie(PATIENCE_MS);
      assertEquals(200, channel.messageCount(target));
    }
  }

  @Test
  void anUnroutablePublishIsConfirmed() throws Exception {
    channel.basicPublish("", "nobody-listens", null, bytes("x"));
    channel.basicPublish("amq.topic", "nobody-listens", null, bytes("x"));
    assertTrue(channel.waitForConfirms(PATIENCE_MS));
  }

  @Test
  void theReturnComesBeforeItsConfirm() throws Exception {
    List<String> order = Collections.synchronizedList(new ArrayList<>());
    channel.addReturnListener(returned -> order.add("return"));
    channel.addConfirmListener(
        (tag, multiple) -> order.add("ack " + tag), (tag, multiple) -> order.add("nack " + tag));
    channel.basicPublish("", "nobody-listens", true, null, bytes("x"));
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    assertEquals(List.of("return", "ack 1"), order);
  }

  @Test
  void sequenceNumbersStartAtOneWithSelect() throws Exception {
    assertEquals(1, channel.getNextPublishSeqNo());
    channel.basicPublish("", queue, null, bytes("x"));
    assertEquals(2, channel.getNextPublishSeqNo());
    Channel late = connection.createChannel();
    late.basicPublish("", queue, null, bytes("before select"));
    late.confirmSelect();
    List<Long> acks = Collections.synchronizedList(new ArrayList<>());
    late.addConfirmListener((tag, multiple) -> acks.add(tag), (tag, multiple) -> acks.add(-tag));
    late.basicPublish("", queue, null, bytes("after select"));
    late.waitForConfirmsOrDie(PATIENCE_MS);
    assertEquals(List.of(1L), acks);
  }

  @Test
  void someConfirmsAreMultipleAndEachPublishIsConfirmedOnce() throws Exception {
    Ledger ledger = new Ledger();
    channel.addConfirmListener(ledger);
    long published = 0;
    while (ledger.multiples() == 0) {
      assertTrue(published < 200_000, "no multiple ack in " + published + " publishes");
      for (int i = 0; i < 2_000; i++) {
        ledger.expect(channel.getNextPublishSeqNo());
        channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, bytes("x"));
        published++;
      }
      channel.waitForConfirmsOrDie(PATIENCE_MS);
      channel.queuePurge(queue);
    }
    ledger.assertAllConfirmedOnce();
  }

  @Test
  void confirmsOfSeveralChannelsAreSeparate() throws Exception {
    List<Channel> publishers = new ArrayList<>();
    for (int i = 0; i < 5; i++) {
      Channel publisher = connection.createChannel();
      publisher.confirmSelect();
      publishers.add(publisher);
    }
    for (int i = 0; i < 100; i++) {
      for (Channel publisher : publishers) {
        publisher.basicPublish("", queue, null, bytes("x"));
      }
    }
    for (Channel publisher : publishers) {
      publisher.waitForConfirmsOrDie(PATIENCE_MS);
      assertEquals(101, publisher.getNextPublishSeqNo());
    }
    assertEquals(500, channel.messageCount(queue));
  }

  @Test
  void aFanOutIsConfirmedOnceForAllQueues() throws Exception {
    String exchange = uniqueName("fanout");
    channel.exchangeDeclare(exchange, "fanout", false, true, null);
    List<String> queues = new ArrayList<>();
    for (int i = 0; i < 5; i++) {
      String bound = privateQueue(channel);
      channel.queueBind(bound, exchange, "");
      queues.add(bound);
    }
    Ledger ledger = new Ledger();
    channel.addConfirmListener(ledger);
    for (int i = 0; i < 50; i++) {
      ledger.expect(channel.getNextPublishSeqNo());
      channel.basicPublish(exchange, "", null, bytes("x"));
    }
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    ledger.assertAllConfirmedOnce();
    for (String each : queues) {
      assertEquals(50, channel.messageCount(each));
    }
  }

  @Test
  void deletingOrPurgingTheQueueConfirmsWhatItHeld() throws Exception {
    for (int i = 0; i < 200; i++) {
      channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, bytes("x"));
    }
    channel.queuePurge(queue);
    for (int i = 0; i < 200; i++) {
      channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, bytes("x"));
    }
    channel.queueDelete(queue);
    channel.waitForConfirmsOrDie(PATIENCE_MS);
  }

  @Test
  void consumedAndAckedMessagesAreConfirmed() throws Exception {
    Channel consumer = connection.createChannel();
    consumer.basicConsume(
        queue, false, (tag, each) -> consumer.basicAck(tagOf(each), false), tag -> {});
    for (int i = 0; i < 500; i++) {
      channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, bytes("x"));
    }
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    awaitReady(queue, 0);
  }

  @Test
  void selectingConfirmsAgainChangesNothing() throws Exception {
    channel.basicPublish("", queue, null, bytes("x"));
    channel.confirmSelect();
    channel.basicPublish("", queue, null, bytes("x"));
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    assertEquals(3, channel.getNextPublishSeqNo());
  }

  @Test
  void aConfirmChannelCannotTurnTransactional() throws Exception {
    ShutdownSignalException signal = assertChannelCloses(channel, 406, () -> channel.txSelect());
    assertTrue(signal.getMessage().contains("cannot switch from confirm to tx mode"));
  }

  @Test
  void aTransactionalChannelCannotTurnToConfirms() throws Exception {
    Channel transactional = connection.createChannel();
    transactional.txSelect();
    ShutdownSignalException signal =
        assertChannelCloses(transactional, 406, transactional::confirmSelect);
    assertTrue(signal.getMessage().contains("cannot switch from tx to confirm mode"));
  }

  @Test
  void waitForConfirmsOrDieDiesWhenThePublishFails() throws Exception {
    channel.basicPublish(uniqueName("missing"), "", null, bytes("x"));
    assertThrows(
        ShutdownSignalException.class,
        () -> {
          channel.waitForConfirmsOrDie(PATIENCE_MS);
          throw new AlreadyClosedException(channel.getCloseReason());
        });
    assertFalse(channel.isOpen());
    assertTrue(channel.getCloseReason().getMessage().contains("NOT_FOUND"));
  }

  /** Which publishes are outstanding, and what the server said about each. */
  private static final class Ledger implements ConfirmListener {
    private final NavigableSet<Long> outstanding = new TreeSet<>();
    private final List<String> faults = new ArrayList<>();
    private int multiples;

    synchronized void expect(long tag) {
      outstanding.add(tag);
    }

    @Override
    public synchronized void handleAck(long tag, boolean multiple) {
      NavigableSet<Long> covered =
          multiple ? outstanding.headSet(tag, true) : outstanding.subSet(tag, true, tag, true);
      if (!covered.contains(tag)) {
        faults.add("ack " + tag + " multiple=" + multiple + " is not outstanding");
      }
      if (multiple && covered.size() > 1) {
        multiples++;
      }
      covered.clear();
    }

    @Override
    public synchronized void handleNack(long tag, boolean multiple) {
      faults.add("nack " + tag);
    }

    synchronized int multiples() {
      return multiples;
    }

    synchronized void assertAllConfirmedOnce() {
      assertEquals(List.of(), faults);
      assertEquals(new TreeSet<Long>(), outstanding);
    }
  }
}
