package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.ShutdownSignalException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Ack, nack, reject, recover, get, and the place of what comes back. */
class SettlingTest extends BrokerCase {
  private static final int COUNT = 20;

  /** A queue that outlives the connection which is closed in these cases. */
  private String sharedQueue() throws Exception {
    return channel.queueDeclare(uniqueName("shared"), false, false, false, null).getQueue();
  }

  private void assertAllBackInOrder(String target) throws Exception {
    awaitReady(target, COUNT);
    List<GetResponse> back = drain(channel, target);
    List<String> texts = new ArrayList<>();
    for (GetResponse each : back) {
      texts.add(text(each.getBody()));
      assertTrue(each.getEnvelope().isRedeliver(), () -> text(each.getBody()) + " is redelivered");
    }
    assertEquals(numbers(0, COUNT), texts);
  }

  @Test
  void getAnswersOneMessageAndTheRestOfTheCount() throws Exception {
    fill(queue, 3);
    GetResponse response = channel.basicGet(queue, false);
    assertEquals("0", text(response.getBody()));
    assertEquals(2, response.getMessageCount());
    assertEquals("", response.getEnvelope().getExchange());
    assertEquals(queue, response.getEnvelope().getRoutingKey());
    assertFalse(response.getEnvelope().isRedeliver());
  }

  @Test
  void getFromAnEmptyQueueAnswersNothing() throws Exception {
    assertNull(channel.basicGet(queue, false));
  }

  @Test
  void getIgnoresThePrefetch() throws Exception {
    fill(queue, 5);
    channel.basicQos(1);
    for (int i = 0; i < 5; i++) {
      assertNotNull(channel.basicGet(queue, false));
    }
  }

  @Test
  void unackedMessagesOfAClosedChannelComeBackInOrder() throws Exception {
    fill(queue, COUNT);
    Channel closing = connection.createChannel();
    new Inbox(closing, queue, false).take(COUNT);
    closing.close();
    assertAllBackInOrder(queue);
  }

  @Test
  void unackedMessagesOfAnAbortedChannelComeBackInOrder() throws Exception {
    fill(queue, COUNT);
    Channel aborting = connection.createChannel();
    new Inbox(aborting, queue, false).take(COUNT);
    aborting.abort();
    assertAllBackInOrder(queue);
  }

  @Test
  void unackedMessagesOfAClosedConnectionComeBackInOrder() throws Exception {
    String shared = sharedQueue();
    fill(shared, COUNT);
    Connection closing = open(factory());
    new Inbox(closing.createChannel(), shared, false).take(COUNT);
    closing.close();
    assertAllBackInOrder(shared);
    channel.queueDelete(shared);
  }

  @Test
  void unackedMessagesOfAChannelErrorComeBackInOrder() throws Exception {
    fill(queue, COUNT);
    Channel failing = connection.createChannel();
    new Inbox(failing, queue, false).take(COUNT);
    assertChannelCloses(failing, 404, () -> failing.queueDeclarePassive(uniqueName("missing")));
    assertAllBackInOrder(queue);
  }

  @Test
  void unreadDeliveriesComeBackToo() throws Exception {
    fill(queue, COUNT);
    Channel closing = connection.createChannel();
    closing.basicConsume(queue, false, (tag, each) -> {}, tag -> {});
    closing.close();
    awaitReady(queue, COUNT);
    assertEquals(numbers(0, COUNT), drainTexts(channel, queue));
  }

  @Test
  void whatIsAckedInBetweenDoesNotComeBack() throws Exception {
    fill(queue, COUNT);
    Channel closing = connection.createChannel();
    List<Delivery> taken = new Inbox(closing, queue, false).take(COUNT);
    List<String> unacked = new ArrayList<>();
    for (int i = 0; i < COUNT; i++) {
      if (i % 2 == 0) {
        closing.basicAck(tagOf(taken.get(i)), false);
      } else {
        unacked.add(Integer.toString(i));
      }
    }
    closing.close();
    awaitReady(queue, COUNT / 2);
    assertEquals(unacked, drainTexts(channel, queue));
  }

  @Test
  void requeueingOneByOneInAnyOrderKeepsThePlaces() throws Exception {
    fill(queue, COUNT);
    List<Long> tags = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      tags.add(channel.basicGet(queue, false).getEnvelope().getDeliveryTag());
    }
    for (int i : new int[] {7, 0, 9, 3, 1, 8, 2, 5, 4, 6}) {
      channel.basicReject(tags.get(i), true);
    }
    awaitReady(queue, COUNT);
    assertEquals(numbers(0, COUNT), drainTexts(channel, queue));
  }

  @Test
  void cancellingDoesNotRequeue() throws Exception {
    fill(queue, 1);
    Inbox inbox = new Inbox(channel, queue, false);
    Delivery delivery = inbox.take();
    channel.basicCancel(inbox.tag);
    assertNull(channel.basicGet(queue, true));
    channel.basicAck(tagOf(delivery), false);
    channel.close();
    assertEquals(0, connection.createChannel().messageCount(queue));
  }

  @Test
  void recoverRequeuesTheUnacked() throws Exception {
    fill(queue, 3);
    Inbox inbox = new Inbox(channel, queue, false);
    List<Delivery> first = inbox.take(3);
    channel.basicAck(tagOf(first.get(1)), false);
    channel.basicRecover();
    List<Delivery> again = inbox.take(2);
    assertEquals("0", text(again.get(0).getBody()));
    assertEquals("2", text(again.get(1).getBody()));
    assertTrue(again.get(0).getEnvelope().isRedeliver());
    assertEquals(4, tagOf(again.get(0)));
    assertChannelCloses(channel, 406, () -> channel.basicAck(tagOf(first.get(0)), false));
  }

  @Test
  void recoverReturnsMessagesThatOtherConsumersMayTake() throws Exception {
    fill(queue, 1);
    assertNotNull(channel.basicGet(queue, false));
    channel.basicRecover(true);
    awaitReady(queue, 1);
    assertTrue(connection.createChannel().basicGet(queue, true).getEnvelope().isRedeliver());
  }

  @Test
  void recoverDoesNotBringBackAutoAckedMessages() throws Exception {
    fill(queue, 1);
    assertNotNull(channel.basicGet(queue, true));
    channel.basicRecover(true);
    assertNull(channel.basicGet(queue, true));
  }

  @Test
  void recoverWithoutRequeueIsNotImplemented() throws Exception {
    assertConnectionCloses(channel, 540, () -> channel.basicRecover(false));
  }

  @Test
  void nackOfManyCoversAllUpToItsTag() throws Exception {
    fill(queue, 5);
    List<Delivery> taken = new Inbox(channel, queue, false).take(5);
    channel.basicNack(tagOf(taken.get(2)), true, false);
    channel.close();
    awaitReady(queue, 2);
    assertEquals(List.of("3", "4"), drainTexts(connection.createChannel(), queue));
  }

  @Test
  void nackOfZeroCoversAll() throws Exception {
    fill(queue, 5);
    for (int i = 0; i < 5; i++) {
      channel.basicGet(queue, false);
    }
    channel.basicNack(0, true, true);
    awaitReady(queue, 5);
    assertEquals(numbers(0, 5), drainTexts(channel, queue));
  }

  @Test
  void aRejectedMessageReachesAnotherConsumer() throws Exception {
    fill(queue, 1);
    Channel refusing = connection.createChannel();
    refusing.basicConsume(
        queue, false, (tag, each) -> refusing.basicReject(tagOf(each), true), tag -> {});
    Inbox accepting = new Inbox(channel, queue, false);
    Delivery delivery = accepting.take();
    assertEquals("0", text(delivery.getBody()));
    assertTrue(delivery.getEnvelope().isRedeliver());
  }

  @Test
  void settlingAnUnknownTagIsAnError() throws Exception {
    for (int way = 0; way < 4; way++) {
      int chosen = way;
      Channel victim = connection.createChannel();
      ShutdownSignalException signal =
          assertChannelCloses(
              victim,
              406,
              () -> {
                switch (chosen) {
                  case 0:
                    victim.basicAck(999, false);
                    break;
                  case 1:
                    victim.basicAck(999, true);
                    break;
                  case 2:
                    victim.basicNack(999, false, true);
                    break;
                  default:
                    victim.basicReject(999, true);
                }
              });
      assertTrue(signal.getMessage().contains("PRECONDITION_FAILED - unknown delivery tag 999"));
    }
  }

  @Test
  void ackOfManyWithZeroIsFineWhenNothingIsUnacked() throws Exception {
    channel.basicAck(0, true);
    assertEquals(0, channel.messageCount(queue));
  }

  @Test
  void autoAckedDeliveriesHaveNoTagToAck() throws Exception {
    fill(queue, 1);
    GetResponse response = channel.basicGet(queue, true);
    assertChannelCloses(
        channel, 406, () -> channel.basicAck(response.getEnvelope().getDeliveryTag(), false));
  }
}
