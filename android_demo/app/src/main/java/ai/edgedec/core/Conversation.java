package ai.edgedec.core;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The messages of a conversation, with the model that replied and the figures of each reply. */
public final class Conversation {
    public static final String USER = "user";
    public static final String ASSISTANT = "assistant";

    /**
     * A message; {@code thought}, the thinking part of a reply, and {@code figures}, one line, are empty for those of the
     * user. {@code cut}: the reply may go on.
     */
    public static final class Message {
        public final String role;
        public final String text;
        public final String thought;
        public final String figures;
        public final boolean cut;

        public Message(String role, String text, String thought, String figures, boolean cut) {
            this.role = role;
            this.text = text;
            this.thought = thought;
            this.figures = figures;
            this.cut = cut;
        }

        /** Whether there is nothing of it yet. */
        public boolean empty() {
            return text.isEmpty() && thought.isEmpty();
        }
    }

    /** Name of the model's folder. */
    public final String model;
    private final List<Message> messages = new ArrayList<>();

    public Conversation(String model) {
        this.model = model;
    }

    public List<Message> messages() {
        return Collections.unmodifiableList(messages);
    }

    /** Role and text of each message in turn, as the engine takes them: thinking parts are not read again. */
    public List<String> texts() {
        List<String> found = new ArrayList<>();
        for (Message one : messages) {
            found.add(one.role);
            found.add(one.text);
        }
        return found;
    }

    public void add(Message message) {
        messages.add(message);
    }

    /** Takes back the last message and returns it; null where there is none. */
    public Message takeBack() {
        return messages.isEmpty() ? null : messages.remove(messages.size() - 1);
    }

    public void replaceLast(Message message) {
        messages.set(messages.size() - 1, message);
    }

    public String toJson() {
        List<Object> all = new ArrayList<>();
        for (Message one : messages) {
            Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("role", one.role);
            facts.put("text", one.text);
            facts.put("thought", one.thought);
            facts.put("figures", one.figures);
            facts.put("cut", one.cut);
            all.add(facts);
        }
        Map<String, Object> top = new LinkedHashMap<>();
        top.put("format", "edgedec-conversation");
        top.put("model", model);
        top.put("messages", all);
        return Json.write(top);
    }

    public static Conversation fromJson(String text) throws Problem {
        Map<String, Object> top = Json.object(text);
        if (!"edgedec-conversation".equals(top.get("format")) || !(top.get("messages") instanceof List))
            throw new Problem("this is no conversation");
        Conversation found = new Conversation(string(top, "model"));
        for (Object one : (List<?>) top.get("messages")) {
            Map<String, Object> facts = Json.asObject(one, "a message");
            String role = string(facts, "role");
            if (!role.equals(USER) && !role.equals(ASSISTANT)) throw new Problem("a message has the role " + role);
            // Conversations that were saved before there were thinking parts have none.
            String thought = facts.containsKey("thought") ? string(facts, "thought") : "";
            found.add(new Message(role, string(facts, "text"), thought, string(facts, "figures"),
                    Boolean.TRUE.equals(facts.get("cut"))));
        }
        return found;
    }

    private static String string(Map<String, Object> facts, String key) throws Problem {
        if (facts.get(key) instanceof String) return (String) facts.get(key);
        throw new Problem(key + " is not a text");
    }
}
