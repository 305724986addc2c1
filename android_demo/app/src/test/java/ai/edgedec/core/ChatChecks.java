package ai.edgedec.core;

import static ai.edgedec.core.Checks.contains;
import static ai.edgedec.core.Checks.isTrue;
import static ai.edgedec.core.Checks.problem;
import static ai.edgedec.core.Checks.same;

import java.io.File;
import java.nio.file.Files;

final class ChatChecks {
    private ChatChecks() {}

    private static Conversation conversation() {
        Conversation made = new Conversation("smollm2-135m");
        made.add(new Conversation.Message(Conversation.USER, "What is 2+2? \ud83d\ude00\n\u0000", "", "", false));
        made.add(new Conversation.Message(Conversation.ASSISTANT, "4", "Two and two.\n", "9.1 tokens/s", true));
        return made;
    }

    static void testAConversationComesBack(File folder) throws Exception {
        ConversationStore store = new ConversationStore(new File(folder, "a/conversation.json"));
        same(store.load(), null);
        store.save(conversation());
        same(store.load().toJson(), conversation().toJson());
        Conversation longer = conversation();
        longer.takeBack();
        store.save(longer);
        same(store.load().messages().size(), 1);
        store.clear();
        same(store.load(), null);
    }

    static void testAThoughtIsSavedAndNotReadAgain(File folder) throws Exception {
        Conversation again = Conversation.fromJson(conversation().toJson());
        same(again.messages().get(1).thought, "Two and two.\n");
        same(again.texts(), "[user, What is 2+2? \ud83d\ude00\n\u0000, assistant, 4]");
        Conversation.Message cut = new Conversation.Message(Conversation.ASSISTANT, "", "So", "", true);
        isTrue(!cut.empty() && new Conversation.Message(Conversation.ASSISTANT, "", "", "", true).empty(), "a thought is something");
        same(Units.words(" So,  two\nand\ttwo. ") + " " + Units.words(" ") + " " + Units.words(""), "4 0 0");
    }

    static void testAConversationThatWasSavedBeforeThoughtsOpens(File folder) throws Exception {
        String old = conversation().toJson().replaceAll("\"thought\":\"[^\"]*\",", "");
        isTrue(!old.contains("thought"), "none is left");
        same(Conversation.fromJson(old).messages().get(1).thought, "");
        contains(problem(() -> Conversation.fromJson(conversation().toJson().replace("\"thought\":\"\"", "\"thought\":1"))), "thought is not a text");
    }

    static void testADamagedConversationIsKeptAside(File folder) throws Exception {
        File file = new File(folder, "conversation.json");
        Files.write(file.toPath(), "{\"format\":\"edgedec-conversation\",\"mess".getBytes("UTF-8"));
        ConversationStore store = new ConversationStore(file);
        contains(problem(store::load), "conversation.json.damaged");
        isTrue(new File(folder, "conversation.json.damaged").isFile(), "it is kept");
        same(store.load(), null);
    }

    static void testAConversationThatCannotBeSavedLeavesTheOldOne(File folder) throws Exception {
        File file = new File(folder, "conversation.json");
        ConversationStore store = new ConversationStore(file);
        store.save(conversation());
        isTrue(new File(file.getPath() + ".next").mkdir(), "a folder is in the way");
        contains(problem(() -> store.save(new Conversation("other"))), "cannot be saved");
        same(store.load().model, "smollm2-135m");
    }

    static void testFiguresOfAReply(File folder) {
        ReplyFigures figures = new ReplyFigures(new int[] {ReplyFigures.LENGTH, 30, 10, 41, 20, 60, 21, 2}, new double[] {0.5, 4});
        same(figures.line(0.25), "10.0 tokens/s · 2.05 tokens/pass · 21/60 drafts right · 0.25 J/token (whole phone) · 2 oldest messages left out");
        isTrue(figures.cut(), "it may go on");
        ReplyFigures empty = new ReplyFigures(new int[8], new double[2]);
        same(empty.line(Double.NaN), "");
    }

    static void testEnergyOfADischarge(File folder) {
        EnergyMeter meter = new EnergyMeter();
        meter.start();
        for (int i = 0; i <= 10; ++i) meter.sample(i * 1_000_000_000L, -500_000, 4000, false);
        same(Math.round(meter.joules() * 1e6), 20_000_000L); // 0.5 A x 4 V x 10 s
        meter.start();
        for (int i = 0; i <= 10; ++i) meter.sample(i * 1_000_000_000L, 500, 4000, false); // mA, counted above zero
        same(Math.round(meter.joules() * 1e6), 20_000_000L);
        same(Math.round(meter.amperes() * 1e6), 500_000L);
    }

    static void testEnergyIsUnknownWhileChargingAndWithoutSamples(File folder) {
        EnergyMeter meter = new EnergyMeter();
        meter.start();
        isTrue(Double.isNaN(meter.joules()), "no samples");
        meter.sample(0, 300_000, 4000, false);
        meter.sample(1_000_000_000L, 300_000, 4000, true);
        isTrue(Double.isNaN(meter.joules()), "a charger");
        meter.start();
        meter.sample(0, 300_000, 4000, false);
        meter.sample(60_000_000_000L, 300_000, 4000, false);
        isTrue(Double.isNaN(meter.joules()), "a gap");
        meter.start();
        meter.sample(0, Long.MIN_VALUE, 4000, false);
        meter.sample(1, Integer.MIN_VALUE, 4000, false);
        meter.sample(2, 300_000, -1, false);
        isTrue(Double.isNaN(meter.joules()), "a phone without the property");
    }

    static void testSettingsComeBackAndDamagedOnesAreTheDefaults(File folder) {
        Settings made = new Settings(600_000_000L, "lookup", 2048, 128);
        same(Settings.fromJson(made.toJson()).toJson(), made.toJson());
        same(Settings.fromJson("{").toJson(), Settings.DEFAULT.toJson());
        isTrue(made.opensLike(new Settings(600_000_000L, "lookup", 2048, 7)), "length alone opens nothing");
    }

    static void testSizesReadWell(File folder) {
        same(Units.bytes(98_300_000), "98 MB");
        same(Units.bytes(1_234_000_000L), "1.2 GB");
    }
}
