package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSProducer;
import jakarta.jms.Message;
import jakarta.jms.Queue;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.Topic;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The simplified API of JMS 2.0. */
class ContextTest extends RabbitCase {
  private JMSContext context;

  @BeforeEach
  void openAContext() {
    context = factory().createContext(broker.username, broker.password);
  }

  @AfterEach
  void closeTheContext() {
    context.close();
  }

  @Test
  void bodiesAreSentAndReceived() throws Exception {
    Queue queue = queue();
    JMSProducer producer = context.createProducer();
    producer.send(queue, "text");
    producer.send(queue, new byte[] {1, 2});
    producer.send(queue, Map.of("key", "value"));
    JMSConsumer consumer = context.createConsumer(queue);
    assertEquals("text", consumer.receiveBody(String.class, PATIENCE_MS));
    assertEquals(2, consumer.receiveBody(byte[].class, PATIENCE_MS)[1]);
    assertEquals("value", consumer.receiveBody(Map.class, PATIENCE_MS).get("key"));
    assertNull(consumer.receiveNoWait());
  }

  @Test
  void propertiesOfAProducerGoWithItsMessages() throws Exception {
    Queue queue = queue();
    context
        .createProducer()
        .setProperty("number", 42)
        .setJMSType("kind")
        .setPriority(8)
        .setTimeToLive(60_000)
        .setDeliveryMode(DeliveryMode.NON_PERSISTENT)
        .send(queue, "text");
    Message received = context.createConsumer(queue).receive(PATIENCE_MS);
    assertEquals(42, received.getIntProperty("number"));
    assertEquals("kind", received.getJMSType());
    assertEquals(8, received.getJMSPriority());
    assertEquals(DeliveryMode.NON_PERSISTENT, received.getJMSDeliveryMode());
    assertTrue(received.getJMSExpiration() > 0);
  }

  @Test
  void aTransactedContextCommitsAndRollsBack() throws Exception {
    Queue queue = queue();
    JMSContext own = context.createContext(JMSContext.SESSION_TRANSACTED);
    own.createProducer().send(queue, "1");
    own.rollback();
    own.createProducer().send(queue, "2");
    own.commit();
    JMSConsumer consumer = own.createConsumer(queue);
    assertEquals("2", consumer.receiveBody(String.class, PATIENCE_MS));
    own.rollback();
    assertEquals("2", consumer.receiveBody(String.class, PATIENCE_MS));
    own.commit();
    own.close();
    assertEquals(0, observer.ready(queue.getQueueName()));
  }

  @Test
  void aContextAcknowledgesAllThatItReceived() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2", "3");
    JMSContext own = context.createContext(JMSContext.CLIENT_ACKNOWLEDGE);
    JMSConsumer consumer = own.createConsumer(queue);
    consumer.receive(PATIENCE_MS);
    consumer.receive(PATIENCE_MS);
    own.acknowledge();
    assertEquals("3", consumer.receiveBody(String.class, PATIENCE_MS));
    own.recover();
    assertTrue(consumer.receive(PATIENCE_MS).getJMSRedelivered());
    own.close();
    assertEquals(List.of("3"), drained(queue, 1));
  }

  @Test
  void subscriptionsOfEveryKind() throws Exception {
    Topic topic = topic();
    String durable = uniqueName("durable");
    String sharedDurable = uniqueName("shared-durable");
    JMSConsumer plain = context.createConsumer(topic);
    JMSConsumer ofDurable = context.createDurableConsumer(topic, durable);
    JMSConsumer ofShared = context.createSharedConsumer(topic, uniqueName("shared"));
    JMSConsumer ofSharedDurable = context.createSharedDurableConsumer(topic, sharedDurable);
    context.createProducer().send(topic, "to all");
    for (JMSConsumer each : List.of(plain, ofDurable, ofShared, ofSharedDurable)) {
      assertEquals("to all", each.receiveBody(String.class, PATIENCE_MS));
    }
    ofDurable.close();
    ofSharedDurable.close();
    context.unsubscribe(durable);
    context.unsubscribe(sharedDurable);
    assertFalse(observer.exists(durable));
    assertFalse(observer.exists(sharedDurable));
  }

  @Tag("M17")
  @Test
  void aContextSelects() throws Exception {
    onlyHareline();
    Topic topic = topic();
    JMSConsumer consumer = context.createConsumer(topic, "n > 1 AND colour IN ('red', 'blue')");
    context.createProducer().setProperty("n", 2).setProperty("colour", "green").send(topic, "1");
    context.createProducer().setProperty("n", 2).setProperty("colour", "red").send(topic, "2");
    assertEquals("2", consumer.receiveBody(String.class, PATIENCE_MS));
  }

  @Test
  void aTemporaryQueueOfAContext() {
    TemporaryQueue queue = context.createTemporaryQueue();
    JMSConsumer consumer = context.createConsumer(queue);
    context.createProducer().send(queue, "1");
    assertEquals("1", consumer.receiveBody(String.class, PATIENCE_MS));
  }

  @Test
  void aBrowserOfAContext() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2");
    assertEquals(List.of("1", "2"), texts(context.createBrowser(queue).getEnumeration()));
  }

  @Test
  void aContextThatDoesNotStartByItself() throws Exception {
    Queue queue = queue();
    fill(queue, "1");
    context.setAutoStart(false);
    JMSConsumer consumer = context.createConsumer(queue);
    assertNull(consumer.receive(120));
    context.start();
    assertEquals("1", consumer.receiveBody(String.class, PATIENCE_MS));
  }

  @Tag("S9")
  @Test
  void aContextDelays() throws Exception {
    onlyHareline();
    Queue queue = queue();
    context.createProducer().setDeliveryDelay(150).send(queue, "late");
    context.createProducer().send(queue, "at once");
    JMSConsumer consumer = context.createConsumer(queue);
    assertEquals("at once", consumer.receiveBody(String.class, PATIENCE_MS));
    assertEquals("late", consumer.receiveBody(String.class, PATIENCE_MS));
  }
}
