package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Delivery;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/** Prefetch by consumer and by channel, and fairness among consumers that have credit. */
class QosTest extends BrokerCase {
  private static int delivered(List<Inbox> inboxes) {
    return inboxes.stream().mapToInt(Inbox::size).sum();
  }

  private List<Inbox> consumers(Channel on, int count) throws Exception {
    List<Inbox> inboxes = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      inboxes.add(new Inbox(on, queue, false));
    }
    return inboxes;
  }

  private static void awaitDelivered(List<Inbox> inboxes, int count) throws Exception {
    until(() -> delivered(inboxes) == count, count + " deliveries came");
  }

  @Test
  void zeroMeansNoLimit() throws Exception {
    channel.basicQos(0);
    fill(queue, 500);
    new Inbox(channel, queue, false).take(500);
    assertEquals(0, channel.messageCount(queue));
  }

  @Test
  void theLimitHoldsForEachConsumerThatStartsAfterIt() throws Exception {
    fill(queue, 20);
    Channel limited = connection.createChannel();
    limited.basicQos(3);
    List<Inbox> inboxes = consumers(limited, 2);
    awaitDelivered(inboxes, 6);
    assertEquals(14, channel.messageCount(queue));
    assertEquals(3, inboxes.get(0).size());
    assertEquals(3, inboxes.get(1).size());
  }

  @Test
  void aConsumerKeepsTheLimitItStartedWith() throws Exception {
    fill(queue, 20);
    Channel limited = connection.createChannel();
    limited.basicQos(2);
    Inbox first = new Inbox(limited, queue, false);
    limited.basicQos(5);
    Inbox second = new Inbox(limited, queue, false);
    awaitDelivered(List.of(first, second), 7);
    assertEquals(13, channel.messageCount(queue));
    assertEquals(2, first.size());
    assertEquals(5, second.size());
  }

  @Test
  void anAckMakesRoomForExactlyAsManyAsItSettles() throws Exception {
    fill(queue, 20);
    Channel limited = connection.createChannel();
    limited.basicQos(4);
    Inbox inbox = new Inbox(limited, queue, false);
    List<Delivery> taken = inbox.take(4);
    assertEquals(16, channel.messageCount(queue));
    limited.basicAck(tagOf(taken.get(2)), true);
    inbox.take(3);
    assertEquals(13, channel.messageCount(queue));
    limited.basicNack(tagOf(taken.get(3)), false, false);
    inbox.take(1);
    assertEquals(12, channel.messageCount(queue));
  }

  @Test
  void aGlobalLimitIsSharedByTheConsumersOfTheChannel() throws Exception {
    fill(queue, 20);
    Channel limited = connection.createChannel();
    limited.basicQos(5, true);
    List<Inbox> inboxes = consumers(limited, 3);
    awaitDelivered(inboxes, 5);
    assertEquals(15, channel.messageCount(queue));
    limited.basicAck(0, true);
    awaitDelivered(inboxes, 10);
    assertEquals(10, channel.messageCount(queue));
  }

  @Test
  void bothLimitsHoldTogether() throws Exception {
    fill(queue, 30);
    Channel limited = connection.createChannel();
    limited.basicQos(3, false);
    limited.basicQos(7, true);
    List<Inbox> inboxes = consumers(limited, 3);
    awaitDelivered(inboxes, 7);
    assertEquals(23, channel.messageCount(queue));
    assertTrue(inboxes.stream().allMatch(inbox -> inbox.size() <= 3));
  }

  @Test
  void aLimitPerConsumerLiftsTheSharedOne() throws Exception {
    fill(queue, 30);
    Channel limited = connection.createChannel();
    limited.basicQos(7, true);
    limited.basicQos(3, false);
    List<Inbox> inboxes = consumers(limited, 3);
    awaitDelivered(inboxes, 9);
    assertEquals(21, channel.messageCount(queue));
  }

  @Test
  void raisingOrLiftingTheGlobalLimitResumesDelivery() throws Exception {
    fill(queue, 20);
    Channel limited = connection.createChannel();
    limited.basicQos(1, true);
    Inbox inbox = new Inbox(limited, queue, false);
    until(() -> inbox.size() == 1, "the first delivery came");
    assertEquals(19, channel.messageCount(queue));
    limited.basicQos(6, true);
    until(() -> inbox.size() == 6, "five more came");
    assertEquals(14, channel.messageCount(queue));
    limited.basicQos(0, true);
    until(() -> inbox.size() == 20, "all came");
  }

  @Test
  void loweringTheGlobalLimitHoldsUntilEnoughIsAcked() throws Exception {
    fill(queue, 20);
    Channel limited = connection.createChannel();
    limited.basicQos(5, true);
    Inbox inbox = new Inbox(limited, queue, false);
    List<Delivery> taken = inbox.take(5);
    limited.basicQos(2, true);
    limited.basicAck(tagOf(taken.get(2)), true);
    assertEquals(15, limited.messageCount(queue));
    limited.basicAck(tagOf(taken.get(3)), false);
    inbox.take(1);
    assertEquals(14, channel.messageCount(queue));
  }

  @Test
  void gettingDoesNotCountAgainstTheLimit() throws Exception {
    fill(queue, 10);
    Channel limited = connection.createChannel();
    limited.basicQos(2, true);
    for (int i = 0; i < 4; i++) {
      limited.basicGet(queue, false);
    }
    new Inbox(limited, queue, false).take(2);
    assertEquals(4, channel.messageCount(queue));
  }

  @Test
  void aLimitOutlivesItsConsumers() throws Exception {
    fill(queue, 10);
    Channel limited = connection.createChannel();
    limited.basicQos(2);
    for (int round = 0; round < 3; round++) {
      Inbox inbox = new Inbox(limited, queue, false);
      inbox.take(2);
      awaitReady(queue, 8);
      limited.basicCancel(inbox.tag);
      limited.basicNack(0, true, true);
      awaitReady(queue, 10);
    }
  }

  @Test
  void autoAckDeliveriesAreNotLimited() throws Exception {
    fill(queue, 50);
    Channel limited = connection.createChannel();
    limited.basicQos(1);
    new Inbox(limited, queue, true).take(50);
  }

  @Test
  void consumersOfOneChannelGetEvenShares() throws Exception {
    Channel shared = connection.createChannel();
    List<Inbox> inboxes = consumers(shared, 5);
    fill100AndAwait(inboxes);
    for (Inbox inbox : inboxes) {
      assertEquals(20, inbox.size());
    }
  }

  @Test
  void consumersOfSeveralConnectionsGetEvenShares() throws Exception {
    String shared = channel.queueDeclare(uniqueName("fair"), false, false, true, null).getQueue();
    queue = shared;
    List<Inbox> inboxes = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      inboxes.add(new Inbox(open(factory()).createChannel(), shared, false));
    }
    fill100AndAwait(inboxes);
    for (Inbox inbox : inboxes) {
      assertEquals(25, inbox.size());
    }
  }

  private void fill100AndAwait(List<Inbox> inboxes) throws Exception {
    for (String each : numbers(0, 100)) {
      channel.basicPublish("", queue, null, bytes(each));
    }
    awaitDelivered(inboxes, 100);
  }

  @Test
  void aConsumerWithoutRoomIsPassedOver() throws Exception {
    Channel full = connection.createChannel();
    full.basicQos(1);
    Inbox stuck = new Inbox(full, queue, false);
    Channel quick = connection.createChannel();
    List<String> seen = new ArrayList<>();
    quick.basicQos(1);
    quick.basicConsume(
        queue,
        false,
        (tag, each) -> {
          synchronized (seen) {
            seen.add(text(each.getBody()));
          }
          quick.basicAck(tagOf(each), false);
        },
        tag -> {});
    for (String each : numbers(0, 100)) {
      channel.basicPublish("", queue, null, bytes(each));
    }
    until(() -> size(seen) == 99, "the quick one took all but one");
    Set<String> all = new TreeSet<>(seen);
    all.add(text(stuck.take().getBody()));
    assertEquals(new TreeSet<>(numbers(0, 100)), all);
  }

  private static int size(List<String> shared) {
    synchronized (shared) {
      return shared.size();
    }
  }

  @Test
  void oneLimitedChannelConsumesFromManyQueues() throws Exception {
    List<String> queues = new ArrayList<>();
    for (int i = 0; i < 5; i++) {
      String each = privateQueue(channel);
      fill(each, 4);
      queues.add(each);
    }
    Channel limited = connection.createChannel();
    limited.basicQos(3, true);
    List<Inbox> inboxes = new ArrayList<>();
    for (String each : queues) {
      inboxes.add(new Inbox(limited, each, false));
    }
    int total = 0;
    while (total < 20) {
      int expected = Math.min(total + 3, 20);
      awaitDelivered(inboxes, expected);
      assertEquals(20 - expected, ready(queues));
      limited.basicAck(0, true);
      total = expected;
    }
  }

  private long ready(List<String> queues) throws Exception {
    long sum = 0;
    for (String each : queues) {
      sum += channel.messageCount(each);
    }
    return sum;
  }

  @Test
  void aLimitInOctetsIsKeptWhereTheBrokerHasIt() throws Exception {
    Channel limited = connection.createChannel();
    if (connection.getServerProperties().containsKey("cluster_name") && refusesOctets()) {
      assertConnectionCloses(limited, 540, () -> limited.basicQos(250, 0, false));
      return;
    }
    for (int i = 0; i < 10; i++) {
      channel.basicPublish("", queue, null, new byte[100]);
    }
    awaitReady(queue, 10);
    limited.basicQos(250, 0, false);
    Inbox inbox = new Inbox(limited, queue, false);
    List<Delivery> taken = inbox.take(2);
    awaitReady(queue, 8);
    limited.basicAck(tagOf(taken.get(1)), true);
    inbox.take(2);
    awaitReady(queue, 6);
  }

  // differs: prefetch-size
  /** RabbitMQ of every version answers 540 to a prefetch_size; found out on a connection of its own. */
  private boolean refusesOctets() throws Exception {
    Channel probe = open(factory()).createChannel();
    try {
      probe.basicQos(1, 0, false);
      return false;
    } catch (java.io.IOException refused) {
      AMQP.Connection.Close close =
          (AMQP.Connection.Close) probe.getConnection().getCloseReason().getReason();
      return close.getReplyCode() == 540;
    }
  }
}
