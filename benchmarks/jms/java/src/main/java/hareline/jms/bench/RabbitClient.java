package hareline.jms.bench;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;

/**
 * RabbitMQ's JMS client with its defaults: no limit on prefetching, receive() polls by basic.get.
 * Only where a listener commits there must be a limit: of more than 1,000 deliveries that wait in
 * the client, the thread that would read the answer to the commit stands still.
 */
final class RabbitClient implements Client {

    /** As many as the other client prefetches. */
    private static final int TRANSACTED_PREFETCH = 500;

    @Override
    public Sender sender(Job job, String queue) throws Exception {
        Connection connection = connect(job);
        Session session = session(connection, job);
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        producer.setDeliveryMode(
                job.isPersistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
        Body body = new Body(job.size);
        return new Sender() {
            @Override
            public void send(long number) throws Exception {
                if (job.isText) {
                    producer.send(session.createTextMessage(body.text(number)));
                } else {
                    BytesMessage message = session.createBytesMessage();
                    message.writeBytes(body.octets(number));
                    producer.send(message);
                }
            }

            @Override
            public void commit() throws Exception {
                session.commit();
            }

            @Override
            public void settle() throws Exception {
                session.createQueue(queue); // a declaration: its answer comes after all sent
            }

            @Override
            public void close() {
                end(connection);
            }
        };
    }

    @Override
    public Receiver receiver(Job job, String queue) throws Exception {
        Connection connection = connect(job);
        Session session = session(connection, job);
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        Body body = new Body(job.size);
        if (!job.isListening) {
            connection.start();
        }
        return new Receiver() {
            @Override
            public void listen(Sink sink) throws Exception {
                consumer.setMessageListener(message -> sink.take(() -> number(message, body)));
                connection.start();
            }

            @Override
            public long receive(long timeoutMs) throws Exception {
                Message message = consumer.receive(timeoutMs);
                return message == null ? NONE : number(message, body);
            }

            @Override
            public void commit() throws Exception {
                session.commit();
            }

            @Override
            public void close() {
                end(connection);
            }
        };
    }

    private static long number(Message message, Body body) throws Exception {
        if (message instanceof TextMessage) {
            return body.number(((TextMessage) message).getText());
        }
        BytesMessage bytes = (BytesMessage) message;
        return body.number(bytes.getBodyLength(), bytes.readBytes(body.buffer()));
    }

    private static void end(Connection connection) {
        try {
            connection.close();
        } catch (JMSException error) {
            throw new IllegalStateException("a connection cannot be closed", error);
        }
    }

    private static Session session(Connection connection, Job job) throws Exception {
        return job.isTransacted
                ? connection.createSession(true, Session.SESSION_TRANSACTED)
                : connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    private static Connection connect(Job job) throws Exception {
        RMQConnectionFactory factory = new RMQConnectionFactory();
        factory.setHost(job.host);
        factory.setPort(job.port);
        factory.setUsername(job.user);
        factory.setPassword(job.password);
        factory.setVirtualHost(job.vhost);
        if (job.isTransacted) {
            factory.setChannelsQos(TRANSACTED_PREFETCH);
        }
        return factory.createConnection();
    }
}
