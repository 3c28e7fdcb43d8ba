package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.impl.AMQImpl;
import com.rabbitmq.client.impl.ChannelN;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Consumers: tags, cancellation from both sides, exclusivity, channel.flow. */
class ConsumingTest extends BrokerCase {
  @Test
  void consumeOkComesBeforeTheFirstDelivery() throws Exception {
    fill(queue, 10);
    List<String> events = Collections.synchronizedList(new ArrayList<>());
    channel.basicConsume(
        queue,
        true,
        "mine",
        new DefaultConsumer(channel) {
          @Override
          public void handleConsumeOk(String tag) {
            events.add("ok " + tag);
          }

          @Override
          public void handleDelivery(
              String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) {
            events.add(text(body));
          }
        });
    until(() -> events.size() == 11, "all came");
    assertEquals("ok mine", events.get(0));
    assertEquals(numbers(0, 10), events.subList(1, 11));
  }

  @Test
  void aGeneratedTagIsUnique() throws Exception {
    String first = new Inbox(channel, queue, true).tag;
    String second = new Inbox(channel, queue, true).tag;
    assertTrue(first.startsWith("amq.ctag-"), first);
    assertFalse(first.equals(second));
  }

  @Test
  void aTagUsedTwiceOnAChannelClosesTheConnection() throws Exception {
    channel.basicConsume(queue, true, "twin", (tag, each) -> {}, tag -> {});
    assertConnectionCloses(
        channel, 530, () -> channel.basicConsume(queue, true, "twin", (tag, each) -> {}, tag -> {}));
  }

  @Test
  void theSameTagMayBeUsedOnTwoChannels() throws Exception {
    channel.basicConsume(queue, true, "twin", (tag, each) -> {}, tag -> {});
    Channel other = connection.createChannel();
    other.basicConsume(queue, true, "twin", (tag, each) -> {}, tag -> {});
    assertEquals(2, channel.consumerCount(queue));
  }

  @Test
  void exclusiveConsumersKeepOthersOut() throws Exception {
    String exclusive = consumeExclusively(channel);
    Channel other = connection.createChannel();
    assertChannelCloses(
        other, 403, () -> other.basicConsume(queue, true, (tag, each) -> {}, tag -> {}));
    channel.basicCancel(exclusive);
    Channel third = connection.createChannel();
    new Inbox(third, queue, true);
    assertChannelCloses(channel, 403, () -> consumeExclusively(channel));
  }

  private String consumeExclusively(Channel on) throws Exception {
    return on.basicConsume(
        queue, true, "", false, true, Map.of(), (tag, each) -> {}, tag -> {});
  }

  @Test
  void noLocalIsAcceptedAndChangesNothing() throws Exception {
    List<String> seen = Collections.synchronizedList(new ArrayList<>());
    channel.basicConsume(
        queue,
        true,
        "",
        true,
        false,
        Map.of(),
        (tag, each) -> seen.add(text(each.getBody())),
        tag -> {});
    channel.basicPublish("", queue, null, bytes("own"));
    until(() -> seen.size() == 1, "the consumer got its own connection's message");
  }

  @Test
  void cancellingStopsDeliveries() throws Exception {
    Inbox inbox = new Inbox(channel, queue, true);
    channel.basicPublish("", queue, null, bytes("0"));
    inbox.take();
    channel.basicCancel(inbox.tag);
    fill(queue, 5);
    assertEquals(0, inbox.size());
    assertEquals(0, channel.consumerCount(queue));
  }

  @Test
  void aTagMayBeUsedAgainAfterCancelling() throws Exception {
    for (int i = 0; i < 20; i++) {
      List<String> seen = Collections.synchronizedList(new ArrayList<>());
      channel.basicConsume(
          queue, true, "again", (tag, each) -> seen.add(text(each.getBody())), tag -> {});
      channel.basicPublish("", queue, null, bytes("x"));
      until(() -> seen.size() == 1, "the consumer got its message");
      channel.basicCancel("again");
    }
  }

  @Test
  void deletingTheQueueCancelsItsConsumers() throws Exception {
    Inbox first = new Inbox(channel, queue, true);
    Channel other = connection.createChannel();
    Inbox second = new Inbox(other, queue, true);
    connection.createChannel().queueDelete(queue);
    assertEquals(first.tag, first.cancels.poll(PATIENCE_MS, TimeUnit.MILLISECONDS));
    assertEquals(second.tag, second.cancels.poll(PATIENCE_MS, TimeUnit.MILLISECONDS));
    assertNotNull(privateQueue(channel), "the channel lives on");
  }

  @Test
  void unackedDeliveriesOfADeletedQueueMayStillBeAcked() throws Exception {
    fill(queue, 2);
    Inbox inbox = new Inbox(channel, queue, false);
    inbox.take(2);
    channel.queueDelete(queue);
    channel.basicAck(0, true);
    assertNotNull(privateQueue(channel));
  }

  @Test
  void closingAChannelLeavesTheOthersConsuming() throws Exception {
    Inbox staying = new Inbox(channel, queue, true);
    Channel leaving = connection.createChannel();
    new Inbox(leaving, queue, true);
    leaving.close();
    for (String each : numbers(0, 10)) {
      channel.basicPublish("", queue, null, bytes(each));
    }
    assertEquals(numbers(0, 10), staying.takeTexts(10));
  }

  @Test
  void aConsumerMayPublishAndDeclareInItsCallback() throws Exception {
    String answers = privateQueue(channel);
    Inbox received = new Inbox(channel, answers, true);
    Channel working = connection.createChannel();
    working.basicConsume(
        queue,
        false,
        (tag, each) -> {
          working.queueDeclarePassive(answers);
          working.basicPublish("", answers, null, each.getBody());
          working.basicAck(tagOf(each), false);
        },
        tag -> {});
    for (String each : numbers(0, 50)) {
      channel.basicPublish("", queue, null, bytes(each));
    }
    assertEquals(numbers(0, 50), received.takeTexts(50));
  }

  @Test
  void anInactiveFlowPausesDeliveriesWhereTheBrokerHasIt() throws Exception {
    Connection flowing = open(factory());
    ChannelN paused = (ChannelN) flowing.createChannel();
    String target = uniqueName("flow");
    channel.queueDeclare(target, false, false, true, null);
    assertTrue(flow(paused, true));
    // differs: channel-flow
    if (brokerIsOlderThan(4)) {
      assertConnectionCloses(paused, 540, () -> flow(paused, false));
      return;
    }
    Inbox inbox = new Inbox(paused, target, true);
    assertFalse(flow(paused, false));
    fill(target, 3);
    assertEquals(0, inbox.size());
    assertTrue(flow(paused, true));
    assertEquals(numbers(0, 3), inbox.takeTexts(3));
  }

  private static boolean flow(ChannelN on, boolean active) throws Exception {
    AMQP.Channel.FlowOk ok =
        (AMQP.Channel.FlowOk) on.rpc(new AMQImpl.Channel.Flow(active)).getMethod();
    return ok.getActive();
  }
}
