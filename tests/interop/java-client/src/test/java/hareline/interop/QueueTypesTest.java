package hareline.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.LongString;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Queues in other orders than that of arrival, delivery limits, and consumers that select. */
class QueueTypesTest extends BrokerCase {
  private String declared(Map<String, Object> arguments) throws Exception {
    return channel.queueDeclare("", false, true, false, arguments).getQueue();
  }

  private void publish(String to, String body, Integer priority, Map<String, Object> headers)
      throws Exception {
    AMQP.BasicProperties properties =
        new AMQP.BasicProperties.Builder().priority(priority).headers(headers).build();
    channel.basicPublish("", to, properties, bytes(body));
  }

  @Tag("A4")
  @Test
  void theHighestPriorityIsNextAndComesBackToItsPlace() throws Exception {
    String work = declared(Map.of("x-max-priority", 9));
    for (int i = 0; i < 20; i++) {
      publish(work, i + ":" + i % 4, i % 4, null);
    }
    publish(work, "none", null, null);
    GetResponse first = channel.basicGet(work, false);
    assertEquals("3:3", text(first.getBody()));
    channel.basicNack(first.getEnvelope().getDeliveryTag(), false, true);
    List<String> expected = new ArrayList<>();
    for (int level = 3; level >= 0; level--) {
      for (int i = level; i < 20; i += 4) {
        expected.add(i + ":" + level);
      }
    }
    expected.add("none");
    assertEquals(expected, drainTexts(channel, work));
  }

  @Tag("A27")
  @Test
  void withAPrefetchOfOneALateHighOneIsNext() throws Exception {
    String work = declared(Map.of("x-max-priority", 9));
    for (int i = 0; i < 5; i++) {
      publish(work, "low", 1, null);
    }
    Channel working = connection.createChannel();
    working.basicQos(1);
    Inbox inbox = new Inbox(working, work, false);
    Delivery atWork = inbox.take();
    publish(work, "high", 9, null);
    awaitReady(work, 5);
    working.basicAck(tagOf(atWork), false);
    assertEquals("high", text(inbox.take().getBody()));
  }

  @Tag("A5")
  @Test
  void messagesAreInTheOrderOfAHeader() throws Exception {
    String sorted = declared(Map.of("x-sort-key", "price", "x-sort-type", "number"));
    for (int price : new int[] {30, 4, 100, -1}) {
      publish(sorted, Integer.toString(price), null, Map.of("price", price));
    }
    publish(sorted, "5", null, Map.of("price", 5L));
    publish(sorted, "4.5", null, Map.of("price", "4.5"));
    publish(sorted, "none", null, Map.of());
    assertEquals(
        List.of("none", "-1", "4", "4.5", "5", "30", "100"), drainTexts(channel, sorted));
  }

  @Tag("A6")
  @Test
  void onlyTheNewestOfEachKeyIsKept() throws Exception {
    String latest = declared(Map.of("x-last-value-key", "symbol"));
    for (int i = 0; i < 30; i++) {
      publish(latest, Integer.toString(i), null, Map.of("symbol", "S" + i % 3));
    }
    assertEquals(List.of("27", "28", "29"), drainTexts(channel, latest));
  }

  @Tag("A2")
  @Test
  void twoOrderingsAreRefused() throws Exception {
    Channel refused = connection.createChannel();
    Map<String, Object> both = Map.of("x-max-priority", 9, "x-sort-key", "k");
    String reason =
        assertChannelCloses(
                refused, 406, () -> refused.queueDeclare(uniqueName("both"), false, true, true, both))
            .getMessage();
    assertTrue(reason.contains("contradictory args 'x-max-priority' and 'x-sort-key'"), reason);
  }

  /** A message that kills its consumer again and again is out of the way in the end. */
  @Test
  void whatComesBackTooOftenIsDeadLettered() throws Exception {
    Map<String, Object> arguments = new HashMap<>();
    arguments.put("x-delivery-limit", 2);
    arguments.put("x-dead-letter-exchange", "");
    arguments.put("x-dead-letter-routing-key", queue);
    String work = declared(arguments);
    publish(work, "poison", null, null);
    Inbox inbox = new Inbox(channel, work, false);
    Inbox dead = new Inbox(channel, queue, true);
    List<Object> counts = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      Delivery delivery = inbox.take();
      Map<String, Object> headers = delivery.getProperties().getHeaders();
      counts.add(headers == null ? 0L : ((Number) headers.get("x-delivery-count")).longValue());
      assertEquals(i > 0, delivery.getEnvelope().isRedeliver());
      channel.basicNack(tagOf(delivery), false, true);
    }
    assertEquals(List.of(0L, 1L, 2L), counts);
    Map<String, Object> headers = dead.take().getProperties().getHeaders();
    Map<?, ?> death = (Map<?, ?>) ((List<?>) headers.get("x-death")).get(0);
    assertEquals("delivery_limit", ((LongString) death.get("reason")).toString());
    assertEquals(work, ((LongString) death.get("queue")).toString());
    assertEquals(0, inbox.size());
  }

  @Tag("C12")
  @Test
  void consumersMayBeDedicatedToHighPriorities() throws Exception {
    BlockingQueue<String> urgent = selecting("JMSPriority > 6 AND kind <> 'test'");
    for (int i = 0; i < 1_000; i++) {
      publish(queue, "low", i % 7, Map.of("kind", "real"));
    }
    publish(queue, "test", 9, Map.of("kind", "test"));
    publish(queue, "urgent", 9, Map.of("kind", "real"));
    assertEquals("urgent", urgent.poll(PATIENCE_MS, TimeUnit.MILLISECONDS));
    awaitReady(queue, 1_001);
    Inbox rest = new Inbox(channel, queue, true);
    assertEquals("low", rest.takeTexts(1_000).get(999));
    assertEquals(List.of("test"), rest.takeTexts(1));
    assertTrue(urgent.isEmpty());
  }

  private BlockingQueue<String> selecting(String selector) throws Exception {
    BlockingQueue<String> received = new LinkedBlockingQueue<>();
    channel.basicConsume(
        queue,
        true,
        Map.of("x-filter-jms-selector", selector),
        (tag, delivery) -> received.add(text(delivery.getBody())),
        tag -> {});
    return received;
  }
}
